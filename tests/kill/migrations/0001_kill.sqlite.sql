-- What the workload records. No unique keys: a second row must be seen, not prevented.
create table kill_effects (
    n      integer not null primary key autoincrement,
    key    text    not null,
    item   text    not null,
    epoch  integer not null,
    holder text    not null
) strict;

create table kill_told (
    n   integer not null primary key autoincrement,
    key text    not null
) strict;

create table kill_ticks (
    n   integer not null primary key autoincrement,
    key text    not null
) strict;
