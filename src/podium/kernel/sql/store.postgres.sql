-- prune_commits --
-- A lost answer is asked for within seconds; ten minutes are plenty.
delete from podium_commits
 where key in (select key from podium_commits
                where committed_at < clock_timestamp() - interval '10 minutes'
                limit :n)
returning key;
