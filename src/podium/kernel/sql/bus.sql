-- Who hears a topic. Messages themselves are work.

-- subscribe --
insert into bus_subscriptions (topic, name, filter) values (:topic, :name, :filter)
on conflict (topic, name) do update set filter = excluded.filter;

-- unsubscribe --
delete from bus_subscriptions where topic = :topic and name = :name returning name;

-- subscriptions --
select topic, name, filter from bus_subscriptions
 where topic in (select topic from :topics(topic text) t)
 order by topic, name;
