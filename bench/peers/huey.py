"""huey on SQLite with fsync on: one commit puts a task in, one takes it out, nothing comes in lists."""

from __future__ import annotations

import threading
import time

from huey import SqliteHuey

from bench.timing import Burst, Turns

POLL_SECONDS = 0.001
"""huey's worker and its caller both poll; by default less often (0.1 s), which would be slower here."""


def burst(at: str, items: int, batch: int) -> Burst:
    queue = SqliteHuey(filename=at, fsync=True)
    done = 0
    finished = threading.Event()

    @queue.task()  # type: ignore[untyped-decorator]
    def nothing(n: int) -> None:
        nonlocal done
        done += 1
        if done == items:
            finished.set()

    began = time.perf_counter()
    for n in range(items):
        nothing(n)
    filled = time.perf_counter()
    consumer = _consumer(queue)
    consumer.start()
    assert finished.wait(600), f"{items - done} tasks are missing"
    ended = time.perf_counter()
    consumer.stop(graceful=True)
    return Burst(filled - began, ended - filled)


def one_by_one(at: str, items: int) -> Turns:
    queue = SqliteHuey(filename=at, fsync=True)
    turns = Turns()

    @queue.task()  # type: ignore[untyped-decorator]
    def one(n: int) -> int:
        turns.begun()
        return 1

    consumer = _consumer(queue)
    consumer.start()
    time.sleep(0.2)
    for n in range(items):
        turns.submit()
        result = one(n)
        while result.get() is None:
            time.sleep(POLL_SECONDS)
        turns.seen()
    consumer.stop(graceful=True)
    return turns


def _consumer(queue: SqliteHuey):  # type: ignore[no-untyped-def]
    return queue.create_consumer(
        workers=1,
        worker_type="thread",
        periodic=False,
        initial_delay=POLL_SECONDS,
        backoff=1.0,
        max_delay=POLL_SECONDS,
    )
