-- What the workload records. No unique keys: a second row must be seen, not prevented.
create table kill_effects (
    n      bigint generated always as identity primary key,
    key    text not null,
    item   text not null,
    epoch  int  not null,
    holder text not null
);

create table kill_told (
    n   bigint generated always as identity primary key,
    key text not null
);

create table kill_ticks (
    n   bigint generated always as identity primary key,
    key text not null
);
