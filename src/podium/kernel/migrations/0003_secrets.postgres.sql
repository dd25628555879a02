-- Secrets by name, each sealed with a key of its own that only the master key opens.
create table secrets (
    name       text collate "C" not null primary key,
    sealed     text        not null,
    key_id     text collate "C" not null,  -- the master key that opens it: rotation looks for the others
    updated_at timestamptz not null
);
create index secrets_key on secrets (key_id);
