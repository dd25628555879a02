-- Secrets by name, sealed. What is in this table is of no use without the master key.

-- put --
insert into secrets (name, sealed, key_id, updated_at)
values (:name, :sealed, :key_id, podium_now())
on conflict (name) do update
   set sealed = excluded.sealed, key_id = excluded.key_id, updated_at = excluded.updated_at;

-- get --
select name, sealed from secrets where name = :name;

-- delete --
delete from secrets where name = :name returning name;

-- names --
select name from secrets where name > :after order by name limit :n;

-- page --
select name, sealed from secrets where name > :after order by name limit :n;

-- sealed_with --
select s.name, s.sealed
  from secrets s
 where s.key_id in (select k.key_id from :keys(key_id text) k)
 order by s.name
 limit :n
   for update of s skip locked;

-- rewrap --
-- Only if it is still what was opened. `updated_at` stays: the value did not change.
update secrets as s
   set sealed = i.fresh, key_id = i.fresh_key
  from :items(secret_name text, was text, fresh text, fresh_key text) i
 where s.name = i.secret_name and s.sealed = i.was;

-- left --
-- What waits for another key, by the key it waits for.
select key_id, min(name) as name, count(*) as count
  from secrets
 where key_id <> :key_id
 group by key_id
 order by key_id;
