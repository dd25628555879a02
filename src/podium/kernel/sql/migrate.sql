-- Which migrations a database has had.

-- create --
create table if not exists podium_migrations (
    room       text not null,
    number     int  not null,
    name       text not null,
    applied_at text not null default current_timestamp,
    primary key (room, number));

-- take_your_time --
-- There is nobody to wait for.
select 1 as relaxed;

-- lock --
-- A write transaction on SQLite has the file for itself already.
select 1 as locked;

-- applied --
select room, number, name from podium_migrations order by room, number;

-- record --
insert into podium_migrations (room, number, name) values (:room, :number, :name);
