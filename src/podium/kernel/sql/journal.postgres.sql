-- of --
select seq, at as happened_at, kind, aggregate_id, event, actor, epoch, reason, data,
       tx::text::bigint as tx
  from journal
 where kind = :kind and aggregate_id = :aggregate_id and seq > :after_seq
 order by seq
 limit :n;

-- tail --
-- Sequence numbers are drawn before the commit, so a lower one may appear after a higher one. The
-- order here is that of transactions, and only of those before the oldest that is still open:
-- whatever is committed later sorts behind them.
select seq, at as happened_at, kind, aggregate_id, event, actor, epoch, reason, data,
       tx::text::bigint as tx
  from journal
 where tx < pg_snapshot_xmin(pg_current_snapshot())
   and tx >= (:after_tx)::text::xid8
   and (tx > (:after_tx)::text::xid8 or seq > :after_seq)
 order by tx, seq
 limit :n;

-- newest --
-- Along the index of transactions, from its right edge.
select seq, at as happened_at, kind, aggregate_id, event, actor, epoch, reason, data,
       tx::text::bigint as tx
  from journal
 order by tx desc, seq desc
 limit :n;

-- end --
-- Just before everything that is not settled yet.
select 0 as seq, pg_snapshot_xmin(pg_current_snapshot())::text::bigint as tx;

-- prune --
-- Whole weeks at a time, a row for each.
select dropped from generate_series(1, podium_journal_tend(:keep_seconds)) as dropped where :n > 0;
