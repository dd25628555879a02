-- The workload's own tables.

-- effect --
insert into kill_effects (key, item, epoch, holder)
select i.key, i.item, i.epoch, i.holder
  from :effects(key text, item text, epoch int, holder text) i;

-- told --
insert into kill_told (key) values (:key);

-- tick --
insert into kill_ticks (key) values (:key);

-- unfinished --
select count(*) as count from work;
