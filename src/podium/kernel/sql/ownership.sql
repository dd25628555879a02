-- One owner at a time, for tables that have an id, an owner, an epoch, a heartbeat and a wake_at.
-- The words in braces are filled in per table. An owned row's wake_at is the end of its ownership,
-- so what is new, what is due and what is orphaned are found by one question.

-- take --
-- `materialized`, because a plan may ask a plain inner query once per row, and it would lock more each time.
with chosen as materialized (
    select {id} from {table}
     where wake_at <= podium_now()
     order by wake_at
     limit :n
       for update skip locked)
update {table}
   set {owner} = :owner, {epoch} = {epoch} + 1, {heartbeat} = podium_now(),
       wake_at = podium_now() + seconds(:orphan_seconds)
 where {id} in (select {id} from chosen)
returning {id} as id, {epoch} as epoch;

-- heartbeat --
update {table}
   set {heartbeat} = podium_now(), wake_at = podium_now() + seconds(:orphan_seconds)
 where {owner} = :owner and wake_at is not null
returning {id} as id, {epoch} as epoch;

-- gate --
-- Held until the transaction ends: who passes writes alone.
select t.{id} as id
  from :runs(id text, epoch int) i cross join {table} t
 where t.{id} = i.id and t.{owner} = :owner and t.{epoch} = i.epoch and t.wake_at is not null
 order by t.{id}
   for update of t;

-- release --
-- Nothing moves in it for a while: nobody needs to own it until then.
update {table} as t
   set {owner} = null, {heartbeat} = null, wake_at = podium_now() + seconds(i.wake_seconds)
  from :runs(run_id text, run_epoch int, wake_seconds real) i
 where t.{id} = i.run_id and t.{owner} = :owner and t.{epoch} = i.run_epoch and t.wake_at is not null
returning {id} as id;

-- takeover --
-- Whatever the owner was about to write is refused from here on, and somebody looks at once.
update {table}
   set {owner} = null, {epoch} = {epoch} + 1, {heartbeat} = null, wake_at = podium_now()
 where {id} in (select t.{id} from :ids(id text) i cross join {table} t
                 where t.{id} = i.id and t.wake_at is not null
                 order by t.{id}
                   for update of t)
returning {id} as id, {epoch} as epoch;

-- next_wake --
select micros(wake_at) - micros(podium_now()) as in_micros
  from {table} where wake_at is not null order by wake_at limit 1;

-- audit_overdue --
select count(*) as count from {table} where wake_at < podium_now() - seconds(:grace_seconds);
