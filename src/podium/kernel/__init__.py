"""The primitives: small durable pieces that every domain stands on.

    clock, ids, errors, machine, retry, payload    pure: time, names, rules, text
    store, queries, bell, coalesce, migrate        transactions as re-runnable functions over named SQL
    work                                           the leased queue: what is executed
    bus                                            queues and topics: what is told
    journal, idempotency, wake, ownership          what happened, what was answered, who must look, who owns
    telemetry                                      every metric and the shape of a log line

The kernel knows no backend: it asks a `Store`, so that what it does can be simulated.
"""
