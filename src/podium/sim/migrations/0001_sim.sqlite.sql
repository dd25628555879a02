-- The tables of the scenarios. They live only in the virtual world.

-- Runs that somebody owns, for the ownership scenario.
create table runs (
    id           text    not null primary key,
    state        text    not null check (state in ('running', 'completed', 'cancelled')),
    steps_count  integer not null,
    owner        text,
    epoch        integer not null default 0,
    heartbeat_at integer,
    wake_at      integer,
    check ((wake_at is null) = (state in ('completed', 'cancelled')))
) strict;

create index runs_wake on runs (wake_at) where wake_at is not null;

create table steps (
    id     text    not null primary key,
    run_id text    not null,
    n      integer not null,
    state  text    not null check (state in ('dispatched', 'done'))
) strict;

create index steps_run on steps (run_id, n);

create table commands (
    run_id text not null,
    name   text not null
) strict;

-- What a publisher records beside its message, and what each subscriber records of it.
create table orders (
    id   text not null primary key,
    kind text not null
) strict;

create table received (
    subscription text not null,
    message_id   text not null,
    node         text not null
) strict;

create index received_by on received (subscription, message_id);
