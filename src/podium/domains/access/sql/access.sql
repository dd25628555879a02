-- Tokens, limits, audit.

-- add_token --
insert into access_tokens (id, family, kind, name, hash, scopes, created_by, created_at, expire_at)
values (:id, :family, :kind, :name, :hash, :scopes, :created_by, podium_now(), podium_now() + seconds(:valid_seconds))
returning id, family, kind, name, scopes, created_by, created_at, expire_at, revoked_at;

-- token_by_hash --
select id, family, kind, name, scopes, created_by, created_at, expire_at, revoked_at, podium_now() as now_at
  from access_tokens where hash = :hash;

-- token --
select id, family, kind, name, scopes, created_by, created_at, expire_at, revoked_at, podium_now() as now_at
  from access_tokens where id = :id
   for update;

-- tokens --
-- The newest first; sessions and login links are not shown: they come and go by themselves.
select id, family, kind, name, scopes, created_by, created_at, expire_at, revoked_at, podium_now() as now_at
  from access_tokens
 where kind = 'token' and (:everything = 1 or (revoked_at is null and expire_at > podium_now()))
   and id < :before
 order by id desc
 limit :n;

-- siblings --
-- The valid tokens of one line, the oldest first.
select id, expire_at from access_tokens
 where family = :family and revoked_at is null and expire_at > podium_now()
 order by created_at, id
   for update;

-- shorten --
update access_tokens set expire_at = least(expire_at, podium_now() + seconds(:valid_seconds))
 where id = :id and revoked_at is null
returning id, expire_at;

-- revoke --
update access_tokens set revoked_at = podium_now()
 where id = :id and revoked_at is null
returning id;

-- revoke_opened --
-- Login links and browser sessions live no longer than the token that made them.
update access_tokens set revoked_at = podium_now()
 where created_by = :id and kind <> 'token' and revoked_at is null
returning id;

-- prune_tokens --
-- A token that is over is kept for a month, so that the audit log can still be read.
delete from access_tokens
 where id in (select id from access_tokens
               where expire_at < podium_now() - seconds(case when kind = 'token' then 2592000 else 86400 end)
               limit :n)
returning id;

-- take --
-- `used` may run past the limit: what was granted is worked out from what was there before.
insert into rate_limits (bucket, period, used, expire_at)
values (:bucket, micros(podium_now()) / :period_micros, :wanted, podium_now() + seconds(:period_seconds * 2))
on conflict (bucket, period) do update set used = rate_limits.used + excluded.used
returning used, (period + 1) * :period_micros - micros(podium_now()) as left_micros;

-- prune_limits --
delete from rate_limits
 where expire_at < podium_now()
   and bucket in (select bucket from rate_limits where expire_at < podium_now() limit :n)
returning bucket;

-- record --
insert into audit_log (at, actor, address, service, method, route, target, status, trace_id)
select podium_now(), i.actor, i.address, i.service, i.method, i.route, i.target, i.status, i.trace_id
  from :entries(actor text, address text, service text, method text, route text, target text, status int,
                trace_id text) i;

-- log --
select seq, at as happened_at, actor, address, service, method, route, target, status, trace_id
  from audit_log
 where seq < :before and (cast(:actor as text) is null or actor = :actor)
 order by seq desc
 limit :n;

-- prune_log --
delete from audit_log
 where seq in (select seq from audit_log order by seq limit :n) and at < podium_now() - seconds(:keep_seconds)
returning seq;
