-- What lies in the object store, and how it must look: an object without a row here is not visible.
create table blobs (
    key          text    not null primary key,
    object       text    not null unique,   -- where its bytes are; every write has a new place
    size_bytes   integer not null check (size_bytes >= 0),
    sha256       text    not null,
    content_type text    not null,
    created_at   integer not null,
    expire_at    integer                    -- when the janitor removes it; null: never
) strict;
create index blobs_expire on blobs (expire_at) where expire_at is not null;

-- Objects that no blob points to: being written, or not wanted any more. The janitor removes them when
-- their time has come, so nobody ever has to search the object store for what was forgotten there.
create table blob_leftovers (
    object    text    not null primary key,
    kind      text    not null check (kind in ('upload', 'unwanted')),
    remove_at integer not null,
    tries     integer not null default 0    -- more than 0: its removal has begun, it can be no blob any more
) strict, without rowid;
create index blob_leftovers_remove on blob_leftovers (remove_at);
