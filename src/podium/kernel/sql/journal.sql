-- What happened, per aggregate and in the order of commits.

-- append --
insert into journal (at, kind, aggregate_id, event, actor, epoch, reason, data)
select podium_now(), i.kind, i.aggregate_id, i.event, i.actor, i.epoch, i.reason, i.data
  from :events(kind text, aggregate_id text, event text, actor text, epoch int, reason text, data text) i;

-- of --
select seq, at as happened_at, kind, aggregate_id, event, actor, epoch, reason, data, 0 as tx
  from journal
 where kind = :kind and aggregate_id = :aggregate_id and seq > :after_seq
 order by seq
 limit :n;

-- tail --
-- One writer: the order of sequence numbers is the order of commits.
select seq, at as happened_at, kind, aggregate_id, event, actor, epoch, reason, data, 0 as tx
  from journal
 where seq > :after_seq and :after_tx = 0
 order by seq
 limit :n;

-- newest --
select seq, at as happened_at, kind, aggregate_id, event, actor, epoch, reason, data, 0 as tx
  from journal
 order by seq desc
 limit :n;

-- end --
select coalesce(max(seq), 0) as seq, 0 as tx from journal;

-- prune --
-- In chunks, from the old end.
delete from journal
 where seq in (select seq from journal order by seq limit :n) and at < podium_now() - seconds(:keep_seconds)
returning seq;
