-- Tokens are kept as SHA-256 of their text: whoever reads this table cannot call us.
create table access_tokens (
    id         text collate "C" not null primary key,
    family     text collate "C" not null,  -- the first of a line of tokens that replace each other
    kind       text        not null check (kind in ('token', 'session', 'login')),
    name       text        not null,
    hash       text collate "C" not null unique,
    scopes     text        not null,
    created_by text        not null,
    created_at timestamptz not null,
    expire_at  timestamptz not null,
    revoked_at timestamptz
);

create index access_tokens_family on access_tokens (family) where revoked_at is null;
create index access_tokens_opened on access_tokens (created_by) where kind <> 'token' and revoked_at is null;
create index access_tokens_expire on access_tokens (expire_at);

-- How much of a limit was given out in one period.
create table rate_limits (
    bucket    text collate "C" not null,
    period    bigint      not null,
    used      bigint      not null,
    expire_at timestamptz not null,
    primary key (bucket, period)
);

create index rate_limits_expire on rate_limits (expire_at);

create table audit_log (
    seq      bigint generated always as identity primary key,
    at       timestamptz not null,
    actor    text        not null,
    address  text        not null,
    service  text,
    method   text        not null,
    route    text        not null,
    target   text        not null,
    status   int         not null,
    trace_id text        not null
);

create index audit_log_at on audit_log (at);
