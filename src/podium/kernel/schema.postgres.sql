-- Made by scripts/schema from the migrations. Change a migration, not this file.

--
-- PostgreSQL database dump
--

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: podium_journal_tend(double precision); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.podium_journal_tend(keep_seconds double precision) RETURNS integer
    LANGUAGE plpgsql
    AS $_$
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
end $_$;

--
-- Name: podium_now(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.podium_now() RETURNS timestamp with time zone
    LANGUAGE sql PARALLEL SAFE
    AS $$
    select clock_timestamp()
         + coalesce(nullif(current_setting('podium.clock_offset', true), ''), '0 s')::interval
$$;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: blob_leftovers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.blob_leftovers (
    object text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    remove_at timestamp with time zone NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    CONSTRAINT blob_leftovers_kind_check CHECK ((kind = ANY (ARRAY['upload'::text, 'unwanted'::text])))
);

--
-- Name: blobs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.blobs (
    key text NOT NULL COLLATE pg_catalog."C",
    object text NOT NULL COLLATE pg_catalog."C",
    size_bytes bigint NOT NULL,
    sha256 text NOT NULL,
    content_type text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expire_at timestamp with time zone,
    CONSTRAINT blobs_size_bytes_check CHECK ((size_bytes >= 0))
);

--
-- Name: bus_subscriptions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.bus_subscriptions (
    topic text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    filter text
);

--
-- Name: idempotency; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.idempotency (
    key text NOT NULL COLLATE pg_catalog."C",
    body_hash text NOT NULL,
    answer text,
    expire_at timestamp with time zone NOT NULL
);

--
-- Name: journal_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.journal_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

--
-- Name: journal; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.journal (
    seq bigint DEFAULT nextval('public.journal_seq'::regclass) NOT NULL,
    tx xid8 DEFAULT pg_current_xact_id() NOT NULL,
    at timestamp with time zone NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    aggregate_id text NOT NULL COLLATE pg_catalog."C",
    event text NOT NULL COLLATE pg_catalog."C",
    actor text,
    epoch integer,
    reason text,
    data text
)
PARTITION BY RANGE (at);

--
-- Name: journal_other; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.journal_other (
    seq bigint DEFAULT nextval('public.journal_seq'::regclass) CONSTRAINT journal_seq_not_null NOT NULL,
    tx xid8 DEFAULT pg_current_xact_id() CONSTRAINT journal_tx_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT journal_at_not_null NOT NULL,
    kind text CONSTRAINT journal_kind_not_null NOT NULL COLLATE pg_catalog."C",
    aggregate_id text CONSTRAINT journal_aggregate_id_not_null NOT NULL COLLATE pg_catalog."C",
    event text CONSTRAINT journal_event_not_null NOT NULL COLLATE pg_catalog."C",
    actor text,
    epoch integer,
    reason text,
    data text
);

--
-- Name: podium_commits; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.podium_commits (
    key text NOT NULL COLLATE pg_catalog."C",
    try_number integer NOT NULL,
    committed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: podium_migrations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.podium_migrations (
    room text NOT NULL,
    number integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: secrets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.secrets (
    name text NOT NULL COLLATE pg_catalog."C",
    sealed text NOT NULL,
    key_id text NOT NULL COLLATE pg_catalog."C",
    updated_at timestamp with time zone NOT NULL
);

--
-- Name: work; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.work (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    rank bigint NOT NULL,
    wake_at timestamp with time zone NOT NULL,
    priority integer NOT NULL,
    payload text NOT NULL,
    properties text,
    parent text COLLATE pg_catalog."C",
    dedupe_key text COLLATE pg_catalog."C",
    holder text COLLATE pg_catalog."C",
    epoch integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    attempts_max integer NOT NULL,
    retry text,
    lease_seconds double precision NOT NULL,
    run_seconds_max double precision,
    wait_seconds_max double precision,
    ttl_seconds double precision NOT NULL,
    error text,
    enqueued_at timestamp with time zone NOT NULL,
    ready_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    expire_at timestamp with time zone NOT NULL,
    CONSTRAINT work_check CHECK (((state = ANY (ARRAY['offered'::text, 'leased'::text, 'running'::text])) = (holder IS NOT NULL))),
    CONSTRAINT work_check1 CHECK (((state = 'running'::text) = (started_at IS NOT NULL))),
    CONSTRAINT work_priority_check CHECK (((priority >= 0) AND (priority <= 10))),
    CONSTRAINT work_state_check CHECK ((state = ANY (ARRAY['scheduled'::text, 'ready'::text, 'offered'::text, 'leased'::text, 'running'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_scale_factor='0.2', autovacuum_analyze_scale_factor='0.2', autovacuum_vacuum_cost_delay='0');

--
-- Name: work_finished; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.work_finished (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    holder text COLLATE pg_catalog."C",
    epoch integer NOT NULL,
    attempts integer NOT NULL,
    reason text,
    error text,
    result text,
    priority integer,
    payload text,
    properties text,
    attempts_max integer,
    retry text,
    lease_seconds double precision,
    run_seconds_max double precision,
    wait_seconds_max double precision,
    ttl_seconds double precision,
    enqueued_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone NOT NULL,
    CONSTRAINT work_finished_check CHECK (((state = 'dead'::text) = (payload IS NOT NULL))),
    CONSTRAINT work_finished_state_check CHECK ((state = ANY (ARRAY['done'::text, 'dead'::text, 'cancelled'::text])))
);

--
-- Name: journal_other; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.journal ATTACH PARTITION public.journal_other DEFAULT;

--
-- Name: blob_leftovers blob_leftovers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.blob_leftovers
    ADD CONSTRAINT blob_leftovers_pkey PRIMARY KEY (object);

--
-- Name: blobs blobs_object_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.blobs
    ADD CONSTRAINT blobs_object_key UNIQUE (object);

--
-- Name: blobs blobs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.blobs
    ADD CONSTRAINT blobs_pkey PRIMARY KEY (key);

--
-- Name: bus_subscriptions bus_subscriptions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.bus_subscriptions
    ADD CONSTRAINT bus_subscriptions_pkey PRIMARY KEY (topic, name);

--
-- Name: idempotency idempotency_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (key);

--
-- Name: podium_commits podium_commits_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.podium_commits
    ADD CONSTRAINT podium_commits_pkey PRIMARY KEY (key);

--
-- Name: podium_migrations podium_migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.podium_migrations
    ADD CONSTRAINT podium_migrations_pkey PRIMARY KEY (room, number);

--
-- Name: secrets secrets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (name);

--
-- Name: work_finished work_finished_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.work_finished
    ADD CONSTRAINT work_finished_pkey PRIMARY KEY (id);

--
-- Name: work work_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.work
    ADD CONSTRAINT work_pkey PRIMARY KEY (id);

--
-- Name: blob_leftovers_remove; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX blob_leftovers_remove ON public.blob_leftovers USING btree (remove_at);

--
-- Name: blobs_expire; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX blobs_expire ON public.blobs USING btree (expire_at) WHERE (expire_at IS NOT NULL);

--
-- Name: idempotency_expire; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idempotency_expire ON public.idempotency USING btree (expire_at);

--
-- Name: journal_aggregate; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX journal_aggregate ON ONLY public.journal USING btree (kind, aggregate_id);

--
-- Name: journal_tx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX journal_tx ON ONLY public.journal USING btree (tx);

--
-- Name: journal_other_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX journal_other_at ON public.journal_other USING brin (at);

--
-- Name: journal_other_kind_aggregate_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX journal_other_kind_aggregate_id_idx ON public.journal_other USING btree (kind, aggregate_id);

--
-- Name: journal_other_tx_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX journal_other_tx_idx ON public.journal_other USING btree (tx);

--
-- Name: podium_commits_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX podium_commits_at ON public.podium_commits USING btree (committed_at);

--
-- Name: secrets_key; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX secrets_key ON public.secrets USING btree (key_id);

--
-- Name: work_dedupe; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX work_dedupe ON public.work USING btree (queue, dedupe_key) WHERE (dedupe_key IS NOT NULL);

--
-- Name: work_finished_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX work_finished_at ON public.work_finished USING brin (finished_at);

--
-- Name: work_finished_dead; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX work_finished_dead ON public.work_finished USING btree (queue, finished_at, id) WHERE (state = 'dead'::text);

--
-- Name: work_parent; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX work_parent ON public.work USING btree (parent) WHERE (parent IS NOT NULL);

--
-- Name: work_ready; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX work_ready ON public.work USING btree (queue, rank) WHERE (state = 'ready'::text);

--
-- Name: work_wake; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX work_wake ON public.work USING btree (wake_at);

--
-- Name: journal_other_kind_aggregate_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.journal_aggregate ATTACH PARTITION public.journal_other_kind_aggregate_id_idx;

--
-- Name: journal_other_tx_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.journal_tx ATTACH PARTITION public.journal_other_tx_idx;

--
-- PostgreSQL database dump complete
--
