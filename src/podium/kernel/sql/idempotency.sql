-- Answers that are given again to whoever asks the same thing under the same key.

-- begin --
-- Two callers with one key: the second waits here until the first has committed or given up.
insert into idempotency (key, body_hash, expire_at)
values (:key, :body_hash, podium_now() + seconds(:keep_seconds))
on conflict (key) do update
   set body_hash = excluded.body_hash, answer = null, expire_at = excluded.expire_at
 where idempotency.expire_at <= podium_now()
returning key;

-- known --
select body_hash, answer from idempotency where key = :key;

-- answer --
update idempotency set answer = :answer where key = :key;

-- prune --
delete from idempotency
 where key in (select key from idempotency where expire_at <= podium_now() limit :n)
returning key;
