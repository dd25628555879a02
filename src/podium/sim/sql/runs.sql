-- The rows of the ownership scenario.

-- add --
insert into runs (id, state, steps_count, wake_at)
values (:id, 'running', :steps_count, podium_now())
on conflict do nothing
returning id;

-- load --
select r.id, r.epoch, r.steps_count,
       (select count(*) from steps s where s.run_id = r.id) as begun_count,
       (select count(*) from steps s where s.run_id = r.id and s.state = 'done') as done_count,
       exists (select 1 from commands c where c.run_id = r.id and c.name = 'cancel') as is_cancelled
  from :ids(id text) i cross join runs r
 where r.id = i.id
 order by r.id;

-- dispatch --
insert into steps (id, run_id, n, state)
select i.id, i.run_id, i.n, 'dispatched' from :steps(id text, run_id text, n int) i;

-- step_done --
update steps set state = 'done' where id in (select i.id from :ids(id text) i);

-- close --
update runs
   set state = :state, owner = null, heartbeat_at = null, wake_at = null
 where id in (select i.id from :ids(id text) i);

-- command --
insert into commands (run_id, name) values (:run_id, :name);
