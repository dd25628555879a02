"""Who takes part, on which store, and with which batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench import podium_consumer, podium_queue, raw_postgres, raw_sqlite
from bench.peers import huey, pgqueuer, procrastinate
from bench.places import POSTGRES, SQLITE
from bench.timing import Burst, Turns


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    label: str
    store: str
    batches: tuple[int, ...]
    """How many items it takes out at once; measured with each."""
    burst: Callable[[str, int, int], Burst]
    one_by_one: Callable[[str, int], Turns] | None


CONTESTANTS = (
    Contestant(
        "raw-postgres",
        "raw SQL, the floor",
        POSTGRES,
        (100, 1_000),
        raw_postgres.burst,
        raw_postgres.one_by_one,
    ),
    Contestant(
        "podium-postgres",
        "**Podium**, claim and complete by hand",
        POSTGRES,
        (100, 1_000),
        podium_queue.burst,
        None,
    ),
    Contestant(
        "consumer-postgres",
        "**Podium**, `WorkConsumer`",
        POSTGRES,
        (100,),
        podium_consumer.burst,
        podium_consumer.one_by_one,
    ),
    Contestant("pgqueuer", "pgqueuer", POSTGRES, (100,), pgqueuer.burst, pgqueuer.one_by_one),
    Contestant(
        "procrastinate",
        "Procrastinate",
        POSTGRES,
        (1,),
        procrastinate.burst,
        procrastinate.one_by_one,
    ),
    Contestant(
        "raw-sqlite",
        "raw SQL, the floor",
        SQLITE,
        (1, 100, 1_000),
        raw_sqlite.burst,
        raw_sqlite.one_by_one,
    ),
    Contestant(
        "podium-sqlite",
        "**Podium**, claim and complete by hand",
        SQLITE,
        (100, 1_000),
        podium_queue.burst,
        None,
    ),
    Contestant(
        "consumer-sqlite",
        "**Podium**, `WorkConsumer`",
        SQLITE,
        (100,),
        podium_consumer.burst,
        podium_consumer.one_by_one,
    ),
    Contestant("huey", "huey", SQLITE, (1,), huey.burst, huey.one_by_one),
)
