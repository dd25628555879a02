-- prune_commits --
-- A lost answer is asked for within seconds; ten minutes are plenty.
delete from podium_commits
 where key in (select key from podium_commits
                where committed_at < podium_now() - seconds(600)
                limit :n)
returning key;
