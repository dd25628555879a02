-- The rows of the bus scenario.

-- add --
insert into orders (id, kind) values (:id, :kind) on conflict do nothing returning id;

-- record --
insert into received (subscription, message_id, node) values (:subscription, :message_id, :node);

-- apply --
-- An idempotent consumer: the second time changes nothing.
insert into received (subscription, message_id, node)
select :subscription, :message_id, :node
 where not exists (select 1 from received
                    where subscription = :subscription and message_id = :message_id);
