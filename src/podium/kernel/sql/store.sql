-- What every store is asked about itself.

-- now --
select podium_now() as now_at;

-- prune_commits --
-- Only a store whose commits can be lost on the way keeps such keys.
select 1 as pruned where :n < 0;
