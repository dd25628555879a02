-- The kernel's tables. Times are whole microseconds since 1970; payloads are JSON text.

-- Work that is not finished yet: the hot table. It stays small, because what is finished leaves it.
create table work (
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

create index work_ready on work (queue, rank) where state = 'ready';
create index work_wake on work (wake_at);
create unique index work_dedupe on work (queue, dedupe_key) where dedupe_key is not null;
create index work_parent on work (parent) where parent is not null;

-- Work that is over. A dead letter keeps all that a replay needs.
create table work_finished (
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

create index work_finished_dead on work_finished (queue, finished_at, id) where state = 'dead';
create index work_finished_at on work_finished (finished_at);

-- What happened, in the order it was committed.
create table journal (
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

create index journal_aggregate on journal (kind, aggregate_id);

create table idempotency (
    key        text    not null primary key,
    body_hash  text    not null,
    answer     text,
    expire_at  integer not null
) strict;

create index idempotency_expire on idempotency (expire_at);

create table bus_subscriptions (
    topic  text not null,
    name   text not null,
    filter text,
    primary key (topic, name)
) strict;
