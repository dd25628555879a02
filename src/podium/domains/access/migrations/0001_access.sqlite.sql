-- Tokens are kept as SHA-256 of their text: whoever reads this table cannot call us.
create table access_tokens (
    id         text    not null primary key,
    family     text    not null,  -- the first of a line of tokens that replace each other
    kind       text    not null check (kind in ('token', 'session', 'login')),
    name       text    not null,
    hash       text    not null unique,
    scopes     text    not null,
    created_by text    not null,
    created_at integer not null,
    expire_at  integer not null,
    revoked_at integer
) strict;

create index access_tokens_family on access_tokens (family) where revoked_at is null;
create index access_tokens_opened on access_tokens (created_by) where kind <> 'token' and revoked_at is null;
create index access_tokens_expire on access_tokens (expire_at);

-- How much of a limit was given out in one period.
create table rate_limits (
    bucket    text    not null,
    period    integer not null,
    used      integer not null,
    expire_at integer not null,
    primary key (bucket, period)
) strict;

create index rate_limits_expire on rate_limits (expire_at);

create table audit_log (
    seq      integer primary key autoincrement,
    at       integer not null,
    actor    text    not null,
    address  text    not null,
    service  text,
    method   text    not null,
    route    text    not null,
    target   text    not null,
    status   integer not null,
    trace_id text    not null
) strict;

create index audit_log_at on audit_log (at);
