-- What a broker must be told. The row is its own outbox: what was taken to be told is offered.

-- take --
-- Hidden for as long as it has waited already, within limits: a backlog that nobody hears is told
-- again less and less often. Nobody holds it yet: the epoch stays.
update work
   set state = 'offered', holder = :holder,
       wake_at = least(wake_at, podium_now() + seconds(least(:hide_seconds_max,
           greatest(:hide_seconds, (micros(podium_now()) - micros(ready_at)) / 1000000.0))))
 where rowid in (select rowid from work
                  where queue = :queue and state = 'ready' and rank >= :low and wake_at > podium_now()
                  order by rank
                  limit :n)
returning id, epoch, queue, payload, properties, rank, micros(wake_at) - micros(podium_now()) as hidden_micros;

-- give_back --
-- The broker did not take these: anybody may have them at once, in their old place.
update work as w
   set state = 'ready', holder = null,
       wake_at = least(w.expire_at, coalesce(w.ready_at + seconds(w.wait_seconds_max), w.expire_at))
  from :notices(notice_id text, notice_epoch int) i
 where w.id = i.notice_id and w.epoch = i.notice_epoch and w.state = 'offered' and w.holder = :holder
returning id, queue, rank;

-- recall --
-- Told through a stream that is no more. What is hidden wakes within the longest hiding time, so
-- this walks along `work_wake` and sees no ready row.
update work
   set state = 'ready', holder = null,
       wake_at = least(expire_at, coalesce(ready_at + seconds(wait_seconds_max), expire_at))
 where rowid in (select rowid from work
                  where wake_at > podium_now() and wake_at <= podium_now() + seconds(:hide_seconds_max)
                    and state = 'offered' and holder <> :holder
                    and queue in (select queue from :queues(queue text) q)
                  order by wake_at
                  limit :n)
returning id, queue, rank;
