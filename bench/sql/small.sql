-- The smallest transaction there is: one row.

-- put --
insert into small (caller, n) values (:caller, :n);

-- count --
select count(*) as count from small;
