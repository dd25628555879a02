-- The leased queue. Every change of a held row presents the epoch it was granted.

-- enqueue --
-- Items that share their terms, with ids that we made ourselves: nobody can have them. `n` keeps the
-- order of one list.
insert into work (id, queue, state, rank, wake_at, priority, payload, properties, parent, dedupe_key,
                  attempts_max, retry, lease_seconds, run_seconds_max, wait_seconds_max, ttl_seconds,
                  enqueued_at, ready_at, expire_at)
select i.id, :queue, case when i.delay_seconds > 0 then 'scheduled' else 'ready' end,
       micros(podium_now() + seconds(coalesce(i.delay_seconds, 0) - :head_start_seconds)) * 1000 + i.n,
       podium_now() + seconds(coalesce(i.delay_seconds, :patience_seconds)),
       :priority, i.payload, i.properties, i.parent, i.dedupe_key,
       :attempts_max, :retry, :lease_seconds, :run_seconds_max, :wait_seconds_max, :ttl_seconds,
       podium_now(), podium_now() + seconds(coalesce(i.delay_seconds, 0)),
       podium_now() + seconds(coalesce(i.delay_seconds, 0) + :ttl_seconds)
  from :items(id text, n int, payload text, delay_seconds real, properties text, parent text,
              dedupe_key text) i
returning id, state, rank;

-- enqueue_known --
-- As above, where an id or a dedupe key may be known already. An id that was finished is not run again.
insert into work (id, queue, state, rank, wake_at, priority, payload, properties, parent, dedupe_key,
                  attempts_max, retry, lease_seconds, run_seconds_max, wait_seconds_max, ttl_seconds,
                  enqueued_at, ready_at, expire_at)
select i.id, :queue, case when i.delay_seconds > 0 then 'scheduled' else 'ready' end,
       micros(podium_now() + seconds(coalesce(i.delay_seconds, 0) - :head_start_seconds)) * 1000 + i.n,
       podium_now() + seconds(coalesce(i.delay_seconds, :patience_seconds)),
       :priority, i.payload, i.properties, i.parent, i.dedupe_key,
       :attempts_max, :retry, :lease_seconds, :run_seconds_max, :wait_seconds_max, :ttl_seconds,
       podium_now(), podium_now() + seconds(coalesce(i.delay_seconds, 0)),
       podium_now() + seconds(coalesce(i.delay_seconds, 0) + :ttl_seconds)
  from :items(id text, n int, payload text, delay_seconds real, properties text, parent text,
              dedupe_key text) i
 where not exists (select 1 from work_finished f where f.id = i.id)
on conflict do nothing
returning id, state, rank;

-- withdraw_finished --
-- Enqueueing waits for whoever finishes the same id at that moment, and then finds the way free.
-- This look, with eyes that see what was committed meanwhile, takes such an item out again.
delete from work
 where id in (select f.id from :ids(id text) i cross join work_finished f where f.id = i.id)
returning id;

-- known_by_dedupe_key --
select w.queue, w.dedupe_key, w.id
  from :keys(queue text, key text) k cross join work w
 where w.queue = k.queue and w.dedupe_key = k.key;

-- claim --
-- The epoch grows with every grant. Later writes must present it, so that a holder that was
-- presumed dead and comes back finds its old epoch refused. `low` only saves the walk over the
-- remains of rows claimed before.
update work
   set state = :state, holder = :holder, epoch = epoch + 1, attempts = attempts + :starts,
       started_at = case when :starts = 1 then podium_now() end,
       wake_at = podium_now() + seconds(least(lease_seconds,
           case when :starts = 1 then coalesce(run_seconds_max, lease_seconds) else lease_seconds end))
 where rowid in (select rowid from work
                  where queue = :queue and state = 'ready' and rank >= :low and wake_at > podium_now()
                  order by rank
                  limit :n)
returning id, epoch, queue, wake_at as expires_at, attempts, attempts_max, priority, payload, properties,
          parent, lease_seconds, rank;

-- claim_ids --
update work
   set state = :state, holder = :holder, epoch = epoch + 1, attempts = attempts + :starts,
       started_at = case when :starts = 1 then podium_now() end,
       wake_at = podium_now() + seconds(least(lease_seconds,
           case when :starts = 1 then coalesce(run_seconds_max, lease_seconds) else lease_seconds end))
 where id in (select w.id from :ids(id text) i cross join work w
               where w.id = i.id and w.state in ('ready', 'offered')
                 and w.expire_at > podium_now() and (w.state = 'offered' or w.wake_at > podium_now())
                 for update of w skip locked)
returning id, epoch, queue, wake_at as expires_at, attempts, attempts_max, priority, payload, properties,
          parent, lease_seconds, rank;

-- offer --
-- Shown to one, hidden from the others for a few seconds. Nobody holds it yet: the epoch stays.
update work
   set state = 'offered', holder = :holder, wake_at = podium_now() + seconds(:hide_seconds)
 where rowid in (select rowid from work
                  where queue = :queue and state = 'ready' and wake_at > podium_now() and priority >= :priority_min
                  order by rank
                  limit :n)
returning id, queue, priority, payload, properties, parent, attempts, attempts_max, enqueued_at, rank;

-- start --
-- Is it still mine, and still wanted? Only who gets a row back may begin.
update work as w
   set state = 'running', attempts = w.attempts + 1, started_at = podium_now(),
       wake_at = podium_now() + seconds(least(w.lease_seconds, coalesce(w.run_seconds_max, w.lease_seconds)))
  from :leases(lease_id text, lease_epoch int) i
 where w.id = i.lease_id and w.epoch = i.lease_epoch and w.state = 'leased' and w.wake_at > podium_now()
returning id, epoch, wake_at as expires_at;

-- renew --
-- A renewal never reaches past the limit of the run.
update work as w
   set wake_at = least(podium_now() + seconds(coalesce(i.seconds, w.lease_seconds)),
                       coalesce(w.started_at + seconds(w.run_seconds_max),
                                podium_now() + seconds(coalesce(i.seconds, w.lease_seconds))))
  from :leases(lease_id text, lease_epoch int, seconds real) i
 where w.id = i.lease_id and w.epoch = i.lease_epoch and w.state in ('leased', 'running')
   and w.wake_at > podium_now()
returning id, epoch, wake_at as expires_at;

-- held --
-- The rows of these leases, if they are still held, locked for a decision.
select w.id, w.epoch, w.state, w.queue, w.attempts, w.attempts_max, w.retry, w.priority, w.holder,
       w.started_at, w.run_seconds_max, w.expire_at, podium_now() as now_at
  from :leases(id text, epoch int) i cross join work w
 where w.id = i.id and w.epoch = i.epoch and w.state in ('leased', 'running') and w.wake_at > podium_now()
 order by w.id
   for update of w;

-- finish --
-- Out of the hot table, with a line in the journal. `alive` says that the caller holds it and its
-- lease must not be over; otherwise the caller has locked the row and decided.
insert into work_finished (id, queue, state, parent, holder, epoch, attempts, reason, error, result,
                           priority, payload, properties, attempts_max, retry, lease_seconds,
                           run_seconds_max, wait_seconds_max, ttl_seconds,
                           enqueued_at, started_at, finished_at)
select w.id, w.queue, i.state, w.parent, w.holder, w.epoch, w.attempts, i.reason, coalesce(i.error, w.error),
       i.result, w.priority, case when i.state = 'dead' then w.payload end, w.properties, w.attempts_max,
       w.retry, w.lease_seconds, w.run_seconds_max, w.wait_seconds_max, w.ttl_seconds,
       w.enqueued_at, w.started_at, podium_now()
  from :items(id text, epoch int, alive int, state text, reason text, error text, result text) i
       cross join work w
 where w.id = i.id and w.epoch = i.epoch
   and (i.alive = 0 or (w.state = 'running' and w.wake_at > podium_now()));

insert into journal (at, kind, aggregate_id, event, actor, epoch, reason)
select f.finished_at, 'work', f.id, f.state, f.holder, f.epoch, f.reason
  from :items(id text, epoch int) i cross join work w cross join work_finished f
 where w.id = i.id and w.epoch = i.epoch and f.id = i.id;

delete from work
 where id in (select f.id from :items(id text) i cross join work_finished f where f.id = i.id)
returning id, epoch;

-- put_back --
-- Back into the queue, or into the future. `keeps_rank` leaves it in its place in the line.
update work as w
   set state = i.target, holder = null, started_at = null,
       attempts = w.attempts - i.refund, error = coalesce(i.failure, w.error),
       ready_at = podium_now() + seconds(i.delay_seconds),
       rank = case when i.keeps_rank = 1 then w.rank
                   else micros(podium_now() + seconds(i.delay_seconds - w.priority * :ageing_seconds)) * 1000 end,
       wake_at = case when i.delay_seconds > 0 then podium_now() + seconds(i.delay_seconds)
                      else least(w.expire_at,
                                 coalesce(podium_now() + seconds(w.wait_seconds_max), w.expire_at)) end
  from :items(item_id text, item_epoch int, was text, target text, delay_seconds real, refund int,
              keeps_rank int, failure text) i
 where w.id = i.item_id and w.epoch = i.item_epoch and w.state = i.was
returning id, epoch, queue, rank;

-- promote --
-- What was put off, or offered and not taken, is ready now.
update work
   set state = 'ready', holder = null,
       wake_at = least(expire_at, coalesce(ready_at + seconds(wait_seconds_max), expire_at))
 where rowid in (select rowid from work
                  where wake_at <= podium_now() and state in ('scheduled', 'offered')
                  order by wake_at
                  limit :n)
returning id, queue, rank;

-- due --
-- Whose time is up: waited too long in the queue, went silent, or ran too long.
select id, epoch, state, queue, attempts, attempts_max, retry, priority, holder,
       started_at, run_seconds_max, expire_at, podium_now() as now_at
  from work
 where wake_at <= podium_now() and state in ('ready', 'leased', 'running')
 order by wake_at
 limit :n
   for update skip locked;

-- due_ids --
select id from work where wake_at <= podium_now() order by wake_at limit :n;

-- due_one --
select id, epoch, state, queue, attempts, attempts_max, retry, priority, holder,
       started_at, run_seconds_max, expire_at, podium_now() as now_at
  from work
 where id = :id and wake_at <= podium_now() and state in ('ready', 'leased', 'running')
   for update;

-- promote_one --
update work
   set state = 'ready', holder = null,
       wake_at = least(expire_at, coalesce(podium_now() + seconds(wait_seconds_max), expire_at))
 where id = :id and wake_at <= podium_now() and state in ('scheduled', 'offered')
returning id, queue, rank;

-- quarantine --
-- A row that cannot be settled is left for a person, and looked at again in an hour. Its epoch grows:
-- the hour is not a gift to whoever held it.
update work set wake_at = podium_now() + seconds(3600), epoch = epoch + 1
 where id = :id and wake_at <= podium_now()
returning id, epoch;

-- next_wake --
-- Relative to the database's clock, because the sleeper's own clock may be wrong.
select micros(wake_at) - micros(podium_now()) as in_micros from work order by wake_at limit 1;

-- explain --
-- Why a lease was refused.
select i.id, i.epoch as asked, w.state, w.epoch, w.wake_at > podium_now() as is_current, f.state as finished,
       f.epoch as finished_epoch
  from :leases(id text, epoch int) i
  left join work w on w.id = i.id
  left join work_finished f on f.id = i.id;

-- lock_ids --
select w.id, w.epoch, w.state, w.queue from :ids(id text) i cross join work w
 where w.id = i.id
 order by w.id
   for update of w;

-- lock_children --
-- `unstarted` withdraws what nobody has begun and lets the rest run on.
select id, epoch, state, queue from work
 where parent = :parent and (:unstarted = 0 or state <> 'running')
 order by id
 limit :n
   for update;

-- finished --
select f.id, f.queue, f.state, f.epoch, f.attempts, f.holder, f.reason, f.error, f.result,
       f.enqueued_at, f.started_at, f.finished_at
  from :ids(id text) i cross join work_finished f
 where f.id = i.id;

-- live --
select w.id, w.queue, w.state, w.epoch, w.attempts, w.attempts_max, w.priority, w.holder, w.error, w.parent,
       w.wake_at, w.enqueued_at, w.ready_at, w.started_at, w.expire_at, podium_now() as now_at
  from :ids(id text) i cross join work w
 where w.id = i.id;

-- counts --
select queue, state, count(*) as count from work group by queue, state order by queue, state;

-- waiting --
-- Which of these queues have something to take. One step into the index for each.
select queue
  from (select q.queue, (select w.rank from work w
                          where w.queue = q.queue and w.state = 'ready'
                          order by w.rank
                          limit 1) as first_rank
          from :queues(queue text) q) as looked
 where first_rank is not null;

-- depth --
-- Bounded: a caller who asks on every poll must not pay for a million rows.
select count(*) as count
  from (select 1 from work where queue = :queue and state = 'ready' limit :at_most) as counted;

-- dead_letters --
select id, queue, priority, epoch, attempts, reason, error, payload, properties, parent,
       enqueued_at, finished_at
  from work_finished
 where state = 'dead' and queue = :queue and (finished_at, id) > (:after_at, :after_id)
 order by finished_at, id
 limit :n;

-- dead_letter_counts --
select queue, count(*) as count from work_finished where state = 'dead' group by queue order by queue;

-- replay --
-- The same item with a fresh count of attempts. Its epoch goes on from where it was, so that
-- nobody who held it in its first life can finish it in its second.
insert into work (id, queue, state, rank, wake_at, priority, payload, properties, parent, epoch,
                  attempts_max, retry, lease_seconds, run_seconds_max, wait_seconds_max, ttl_seconds,
                  error, enqueued_at, ready_at, expire_at)
select f.id, f.queue, 'ready', micros(podium_now() - seconds(f.priority * :ageing_seconds)) * 1000,
       podium_now() + seconds(least(f.ttl_seconds, coalesce(f.wait_seconds_max, f.ttl_seconds))),
       f.priority, f.payload, f.properties, f.parent, f.epoch,
       f.attempts_max, f.retry, f.lease_seconds, f.run_seconds_max, f.wait_seconds_max, f.ttl_seconds,
       f.error, podium_now(), podium_now(), podium_now() + seconds(f.ttl_seconds)
  from :ids(id text) i cross join work_finished f
 where f.id = i.id and f.state = 'dead';

delete from work_finished
 where id in (select w.id from :ids(id text) i cross join work w where w.id = i.id)
returning id, queue;

-- prune_finished --
delete from work_finished
 where rowid in (select rowid from work_finished
                  where finished_at < podium_now() - seconds(least(:done_seconds, :dead_seconds))
                    and finished_at < podium_now() - seconds(
                        case when state = 'dead' then :dead_seconds else :done_seconds end)
                  limit :n)
returning id;

-- audit_overdue --
-- Somebody should have looked at these by now.
select count(*) as count from work where wake_at < podium_now() - seconds(:grace_seconds);

-- audit_twice --
-- Nothing is both finished and not.
select count(*) as count from work w cross join work_finished f where f.id = w.id;

-- around --
-- What a waiting item has before it, counted no further than needed, and who works on its queue.
select (select count(*) from (select 1 from work w
                               where w.queue = :queue and w.state = 'ready'
                                 and w.rank < (select me.rank from work me where me.id = :id)
                               limit :at_most) as before) as ahead,
       (select count(distinct w.holder) from work w
         where w.queue = :queue and w.state in ('leased', 'running')) as holders;
