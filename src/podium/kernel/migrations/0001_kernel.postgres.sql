-- The kernel's tables. Text keys compare by bytes (collate "C"): as SQLite does, and faster.

-- The clock that every process compares with. Only tests set the offset.
create function podium_now() returns timestamptz language sql volatile parallel safe as $$
    select clock_timestamp()
         + coalesce(nullif(current_setting('podium.clock_offset', true), ''), '0 s')::interval
$$;

-- One row per write transaction that changed something, for ten minutes: who lost the connection
-- while committing finds out here whether it happened (see the decision record on unknown commits).
create table podium_commits (
    key text collate "C" not null primary key,
    try_number int not null,
    committed_at timestamptz not null default clock_timestamp()
);

create index podium_commits_at on podium_commits (committed_at);

-- Work that is not finished yet: the hot table. It stays small, because what is finished leaves it.
create table work (
    id               text collate "C" not null primary key,
    queue            text collate "C" not null,
    state            text collate "C" not null check (state in ('scheduled', 'ready', 'offered', 'leased', 'running')),
    rank             bigint not null,       -- the order of claims: ready_at - priority * ageing, in nanoseconds
    wake_at          timestamptz not null,  -- when somebody must look if nothing else happens
    priority         int not null check (priority between 0 and 10),
    payload          text not null,
    properties       text,
    parent           text collate "C",
    dedupe_key       text collate "C",
    holder           text collate "C",
    epoch            int not null default 0,
    attempts         int not null default 0,
    attempts_max     int not null,
    retry            text,
    lease_seconds    double precision not null,
    run_seconds_max  double precision,
    wait_seconds_max double precision,
    ttl_seconds      double precision not null,
    error            text,
    enqueued_at      timestamptz not null,
    ready_at         timestamptz not null,
    started_at       timestamptz,
    expire_at        timestamptz not null,
    check ((state in ('offered', 'leased', 'running')) = (holder is not null)),
    check ((state = 'running') = (started_at is not null))
) with (
    -- Rows live for seconds: vacuum early and often, or every claim walks over their remains.
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.2,
    autovacuum_vacuum_cost_delay = 0
);

create index work_ready on work (queue, rank) where state = 'ready';
create index work_wake on work (wake_at);
create unique index work_dedupe on work (queue, dedupe_key) where dedupe_key is not null;
create index work_parent on work (parent) where parent is not null;

-- Work that is over. A dead letter keeps all that a replay needs.
create table work_finished (
    id               text collate "C" not null primary key,
    queue            text collate "C" not null,
    state            text collate "C" not null check (state in ('done', 'dead', 'cancelled')),
    parent           text collate "C",
    holder           text collate "C",
    epoch            int not null,
    attempts         int not null,
    reason           text,
    error            text,
    result           text,
    priority         int,
    payload          text,
    properties       text,
    attempts_max     int,
    retry            text,
    lease_seconds    double precision,
    run_seconds_max  double precision,
    wait_seconds_max double precision,
    ttl_seconds      double precision,
    enqueued_at      timestamptz not null,
    started_at       timestamptz,
    finished_at      timestamptz not null,
    check ((state = 'dead') = (payload is not null))
);

create index work_finished_dead on work_finished (queue, finished_at, id) where state = 'dead';
create index work_finished_at on work_finished using brin (finished_at);

-- What happened. A sequence number says the order within one transaction; across transactions the
-- order is that of the transaction ids whose outcome is settled. One partition per week, made and
-- dropped by the janitor; the default one takes what comes before the janitor does.
create sequence journal_seq;

create table journal (
    seq          bigint not null default nextval('journal_seq'),
    tx           xid8 not null default pg_current_xact_id(),
    at           timestamptz not null,
    kind         text collate "C" not null,
    aggregate_id text collate "C" not null,
    event        text collate "C" not null,
    actor        text,
    epoch        int,
    reason       text,
    data         text
) partition by range (at);

create table journal_other partition of journal default;

create index journal_other_at on journal_other using brin (at);

create index journal_aggregate on journal (kind, aggregate_id);
create index journal_tx on journal (tx);

create table idempotency (
    key       text collate "C" not null primary key,
    body_hash text not null,
    answer    text,
    expire_at timestamptz not null
);

create index idempotency_expire on idempotency (expire_at);

create table bus_subscriptions (
    topic  text collate "C" not null,
    name   text collate "C" not null,
    filter text,
    primary key (topic, name)
);

-- Make the partitions of this week and the next two, drop those that are too old, and say how many
-- were dropped. A week whose rows already lie in the default partition stays there.
create function podium_journal_tend(keep_seconds double precision) returns int language plpgsql as $$
declare
    week timestamptz;
    part text;
    dropped int := 0;
begin
    -- To add or drop a partition the journal is locked, and with it all work. So do not wait in
    -- line for it (whoever comes later would wait behind), and if this process is paused before
    -- it commits, let go soon.
    perform set_config('lock_timeout', '200ms', true);
    perform set_config('idle_in_transaction_session_timeout', '1s', true);
    for n in 0..2 loop
        week := date_trunc('week', podium_now(), 'UTC') + n * interval '7 days';
        part := 'journal_' || to_char(week at time zone 'UTC', 'IYYY"w"IW');
        if to_regclass(part) is null
           and not exists (select 1 from journal_other
                            where at >= week and at < week + interval '7 days') then
            execute format('create table %I partition of journal for values from (%L) to (%L)',
                           part, week, week + interval '7 days');
        end if;
    end loop;
    for part, week in
        select c.relname, to_timestamp(substr(c.relname, 9), 'IYYY"w"IW')
          from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'journal'::regclass and c.relname ~ '^journal_\d{4}w\d{2}$'
    loop
        if week + interval '8 days' < podium_now() - make_interval(secs => keep_seconds) then
            execute format('drop table %I', part);
            dropped := dropped + 1;
        end if;
    end loop;
    delete from journal_other
     where ctid = any(array(select ctid from journal_other
                             where at < podium_now() - make_interval(secs => keep_seconds)
                             limit 10000));
    return dropped;
end $$;

-- The first weeks, before the first line.
select podium_journal_tend(1e9);
