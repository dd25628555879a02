-- What the virtual world asks about itself.

-- columns --
select name from pragma_table_info(:table) order by cid;
