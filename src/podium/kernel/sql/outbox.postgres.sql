-- Two relays side by side skip what the other has locked.

-- take --
with chosen as materialized (
    select ctid from work
     where queue = :queue and state = 'ready' and rank >= :low and wake_at > podium_now()
     order by rank
     limit :n
       for update skip locked)
update work
   set state = 'offered', holder = :holder,
       wake_at = least(wake_at, podium_now() + seconds(least(:hide_seconds_max,
           greatest(:hide_seconds, (micros(podium_now()) - micros(ready_at)) / 1000000.0))))
 where ctid = any(array(select ctid from chosen))
returning id, epoch, queue, payload, properties, rank, micros(wake_at) - micros(podium_now()) as hidden_micros;

-- recall --
with chosen as materialized (
    select ctid from work
     where wake_at > podium_now() and wake_at <= podium_now() + seconds(:hide_seconds_max)
       and state = 'offered' and holder <> :holder
       and queue in (select queue from :queues(queue text) q)
     order by wake_at
     limit :n
       for update skip locked)
update work
   set state = 'ready', holder = null,
       wake_at = least(expire_at, coalesce(ready_at + seconds(wait_seconds_max), expire_at))
 where ctid = any(array(select ctid from chosen))
returning id, queue, rank;
