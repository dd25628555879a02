-- create --
create table if not exists podium_migrations (
    room       text not null,
    number     int  not null,
    name       text not null,
    applied_at timestamptz not null default clock_timestamp(),
    primary key (room, number));

-- take_your_time --
-- Whoever migrates may wait for another who does, and a large table takes its time.
select set_config(name, '0', true) as relaxed from pg_settings
 where name in ('lock_timeout', 'statement_timeout', 'transaction_timeout');

-- lock --
-- Held until the transaction ends. The number is "podium" in ASCII.
select pg_advisory_xact_lock(123661689944429) as locked;
