-- Many write at once here: skipping locked rows keeps claimers from queueing behind one another,
-- and one statement does what takes SQLite three.

-- claim --
with chosen as materialized (
    select ctid from work
     where queue = :queue and state = 'ready' and rank >= :low and wake_at > podium_now()
     order by rank
     limit :n
       for update skip locked)
update work
   set state = :state, holder = :holder, epoch = epoch + 1, attempts = attempts + :starts,
       started_at = case when :starts = 1 then podium_now() end,
       wake_at = podium_now() + seconds(least(lease_seconds,
           case when :starts = 1 then coalesce(run_seconds_max, lease_seconds) else lease_seconds end))
 where ctid = any(array(select ctid from chosen))
returning id, epoch, queue, wake_at as expires_at, attempts, attempts_max, priority, payload, properties,
          parent, lease_seconds, rank;

-- offer --
with chosen as materialized (
    select ctid from work
     where queue = :queue and state = 'ready' and wake_at > podium_now() and priority >= :priority_min
     order by rank
     limit :n
       for update skip locked)
update work
   set state = 'offered', holder = :holder, wake_at = podium_now() + seconds(:hide_seconds)
 where ctid = any(array(select ctid from chosen))
returning id, queue, priority, payload, properties, parent, attempts, attempts_max, enqueued_at, rank;

-- finish --
with gone as (
    delete from work w
     using :items(id text, epoch int, alive int, state text, reason text, error text, result text) i
     where w.id = i.id and w.epoch = i.epoch
       and (i.alive = 0 or (w.state = 'running' and w.wake_at > podium_now()))
    returning w.id, w.queue, i.state, w.parent, w.holder, w.epoch, w.attempts, i.reason,
              coalesce(i.error, w.error) as error, i.result, w.priority,
              case when i.state = 'dead' then w.payload end as payload, w.properties, w.attempts_max, w.retry,
              w.lease_seconds, w.run_seconds_max, w.wait_seconds_max, w.ttl_seconds,
              w.enqueued_at, w.started_at, podium_now() as finished_at),
told as (
    insert into journal (at, kind, aggregate_id, event, actor, epoch, reason)
    select finished_at, 'work', id, state, holder, epoch, reason from gone)
insert into work_finished (id, queue, state, parent, holder, epoch, attempts, reason, error, result,
                           priority, payload, properties, attempts_max, retry, lease_seconds,
                           run_seconds_max, wait_seconds_max, ttl_seconds,
                           enqueued_at, started_at, finished_at)
select id, queue, state, parent, holder, epoch, attempts, reason, error, result,
       priority, payload, properties, attempts_max, retry, lease_seconds,
       run_seconds_max, wait_seconds_max, ttl_seconds, enqueued_at, started_at, finished_at
  from gone
returning id, epoch;

-- promote --
with chosen as materialized (
    select ctid from work
     where wake_at <= podium_now() and state in ('scheduled', 'offered')
     order by wake_at
     limit :n
       for update skip locked)
update work
   set state = 'ready', holder = null,
       wake_at = least(expire_at, coalesce(ready_at + seconds(wait_seconds_max), expire_at))
 where ctid = any(array(select ctid from chosen))
returning id, queue, rank;

-- replay --
with back as (
    delete from work_finished f using :ids(id text) i
     where f.id = i.id and f.state = 'dead'
    returning f.*)
insert into work (id, queue, state, rank, wake_at, priority, payload, properties, parent, epoch,
                  attempts_max, retry, lease_seconds, run_seconds_max, wait_seconds_max, ttl_seconds,
                  error, enqueued_at, ready_at, expire_at)
select id, queue, 'ready', micros(podium_now() - seconds(priority * :ageing_seconds)) * 1000,
       podium_now() + seconds(least(ttl_seconds, coalesce(wait_seconds_max, ttl_seconds))),
       priority, payload, properties, parent, epoch,
       attempts_max, retry, lease_seconds, run_seconds_max, wait_seconds_max, ttl_seconds,
       error, podium_now(), podium_now(), podium_now() + seconds(ttl_seconds)
  from back
returning id, queue;

-- prune_finished --
delete from work_finished
 where ctid = any(array(
    select ctid from work_finished
     where finished_at < podium_now() - seconds(least(:done_seconds, :dead_seconds))
       and finished_at < podium_now() - seconds(
           case when state = 'dead' then :dead_seconds else :done_seconds end)
     limit :n))
returning id;
