-- Blobs: which keys there are, where the bytes of each lie, and what lies there without a key.

-- begin --
-- Before the first byte is sent: whatever happens from here on, somebody knows the object's name.
insert into blob_leftovers (object, kind, remove_at)
values (:object, 'upload', podium_now() + seconds(:upload_seconds));

-- insert --
-- Of two that come at once the second waits here, and then finds the first one's row.
insert into blobs (key, object, size_bytes, sha256, content_type, created_at, expire_at)
values (:key, :object, :size_bytes, :digest, :content_type,
        podium_now(), podium_now() + seconds(:expire_seconds))
on conflict (key) do nothing
returning key, object, size_bytes, sha256, content_type, created_at, expire_at;

-- lock --
select key, object, size_bytes, sha256, content_type, created_at, expire_at,
       case when expire_at <= podium_now() then 1 else 0 end as expired
  from blobs where key = :key
   for update;

-- replace --
-- The old bytes stay where they are: who reads them reads on, and nobody sees new bytes under an old hash.
update blobs
   set object = :object, size_bytes = :size_bytes, sha256 = :digest, content_type = :content_type,
       created_at = podium_now(), expire_at = podium_now() + seconds(:expire_seconds)
 where key = :key
returning key, object, size_bytes, sha256, content_type, created_at, expire_at;

-- finish_upload --
-- Nothing comes back when the janitor was faster: then the object is being removed, and must not become a blob.
delete from blob_leftovers where object = :object and tries = 0 returning object;

-- find --
select key, object, size_bytes, sha256, content_type, created_at, expire_at,
       micros(expire_at) - micros(podium_now()) as left_micros
  from blobs
 where key = :key and (expire_at is null or expire_at > podium_now());

-- page --
select key, object, size_bytes, sha256, content_type, created_at, expire_at
  from blobs
 where key >= :prefix and key < :prefix_end and key > :after
   and (expire_at is null or expire_at > podium_now())
 order by key
 limit :n;

-- remove --
delete from blobs where key = :key
returning object, case when expire_at <= podium_now() then 1 else 0 end as expired;

-- expire --
with chosen as materialized (
    select key from blobs
     where expire_at <= podium_now()
     order by expire_at
     limit :n
       for update skip locked)
delete from blobs where key in (select key from chosen)
returning object;

-- leave --
-- Not at once: somebody may be in the middle of reading them.
insert into blob_leftovers (object, kind, remove_at)
select i.object, 'unwanted', podium_now() + seconds(:linger_seconds) from :objects(object text) i;

-- keep --
-- Said by who is still reading. Once the removal has begun it is too late.
update blob_leftovers
   set remove_at = greatest(remove_at, podium_now() + seconds(:linger_seconds))
 where object = :object and tries = 0;

-- claim --
-- Two janitors take different ones; what one could not remove comes up again later.
with chosen as materialized (
    select object from blob_leftovers
     where remove_at <= podium_now()
     order by remove_at
     limit :n
       for update skip locked)
update blob_leftovers
   set tries = tries + 1, remove_at = podium_now() + seconds(:retry_seconds)
 where object in (select object from chosen)
returning object, kind;

-- give_up --
-- By the one who was writing it. Once more, if the janitor was there before: the last bytes came after it.
insert into blob_leftovers (object, kind, remove_at, tries)
values (:object, 'upload', podium_now() + seconds(:retry_seconds), 1)
on conflict (object) do update set tries = blob_leftovers.tries + 1, remove_at = excluded.remove_at
returning object, kind;

-- is_placed --
select object from blobs where object = :object;

-- forget --
delete from blob_leftovers where object in (select i.object from :objects(object text) i);
