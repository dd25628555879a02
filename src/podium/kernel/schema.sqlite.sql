-- Made by scripts/schema from the migrations. Change a migration, not this file.

CREATE TABLE podium_migrations (
    room       text not null,
    number     int  not null,
    name       text not null,
    applied_at text not null default current_timestamp,
    primary key (room, number));

CREATE TABLE work (
    id               text    not null primary key,
    queue            text    not null,
    state            text    not null check (state in ('scheduled', 'ready', 'offered', 'leased', 'running')),
    rank             integer not null,  -- the order of claims: ready_at - priority * ageing, in nanoseconds
    wake_at          integer not null,  -- when somebody must look if nothing else happens
    priority         integer not null check (priority between 0 and 10),
    payload          text    not null,
    properties       text,
    parent           text,
    dedupe_key       text,
    holder           text,
    epoch            integer not null default 0,
    attempts         integer not null default 0,
    attempts_max     integer not null,
    retry            text,
    lease_seconds    real    not null,
    run_seconds_max  real,
    wait_seconds_max real,
    ttl_seconds      real    not null,
    error            text,
    enqueued_at      integer not null,
    ready_at         integer not null,
    started_at       integer,
    expire_at        integer not null,
    check ((state in ('offered', 'leased', 'running')) = (holder is not null)),
    check ((state = 'running') = (started_at is not null))
) strict;

CREATE INDEX work_ready on work (queue, rank) where state = 'ready';

CREATE INDEX work_wake on work (wake_at);

CREATE UNIQUE INDEX work_dedupe on work (queue, dedupe_key) where dedupe_key is not null;

CREATE INDEX work_parent on work (parent) where parent is not null;

CREATE TABLE work_finished (
    id               text    not null primary key,
    queue            text    not null,
    state            text    not null check (state in ('done', 'dead', 'cancelled')),
    parent           text,
    holder           text,
    epoch            integer not null,
    attempts         integer not null,
    reason           text,
    error            text,
    result           text,
    priority         integer,
    payload          text,
    properties       text,
    attempts_max     integer,
    retry            text,
    lease_seconds    real,
    run_seconds_max  real,
    wait_seconds_max real,
    ttl_seconds      real,
    enqueued_at      integer not null,
    started_at       integer,
    finished_at      integer not null,
    check ((state = 'dead') = (payload is not null))
) strict;

CREATE INDEX work_finished_dead on work_finished (queue, finished_at, id) where state = 'dead';

CREATE INDEX work_finished_at on work_finished (finished_at);

CREATE TABLE journal (
    seq          integer not null primary key autoincrement,
    at           integer not null,
    kind         text    not null,
    aggregate_id text    not null,
    event        text    not null,
    actor        text,
    epoch        integer,
    reason       text,
    data         text
) strict;

CREATE INDEX journal_aggregate on journal (kind, aggregate_id);

CREATE TABLE idempotency (
    key        text    not null primary key,
    body_hash  text    not null,
    answer     text,
    expire_at  integer not null
) strict;

CREATE INDEX idempotency_expire on idempotency (expire_at);

CREATE TABLE bus_subscriptions (
    topic  text not null,
    name   text not null,
    filter text,
    primary key (topic, name)
) strict;

CREATE TABLE blobs (
    key          text    not null primary key,
    object       text    not null unique,   -- where its bytes are; every write has a new place
    size_bytes   integer not null check (size_bytes >= 0),
    sha256       text    not null,
    content_type text    not null,
    created_at   integer not null,
    expire_at    integer                    -- when the janitor removes it; null: never
) strict;

CREATE INDEX blobs_expire on blobs (expire_at) where expire_at is not null;

CREATE TABLE blob_leftovers (
    object    text    not null primary key,
    kind      text    not null check (kind in ('upload', 'unwanted')),
    remove_at integer not null,
    tries     integer not null default 0    -- more than 0: its removal has begun, it can be no blob any more
) strict, without rowid;

CREATE INDEX blob_leftovers_remove on blob_leftovers (remove_at);

CREATE TABLE secrets (
    name       text    not null primary key,
    sealed     text    not null,
    key_id     text    not null,  -- the master key that opens it: rotation looks for the others
    updated_at integer not null
) strict;

CREATE INDEX secrets_key on secrets (key_id);
