-- What every store is asked about itself.

-- now --
select podium_now() as now_at;
