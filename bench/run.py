"""The run: every measure, one after the other, each in a process of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

from bench import backlog, idle, relay, route, simulator, small, snapshot, up
from bench.apart import apart
from bench.contestants import Contestant
from bench.places import POSTGRES, SQLITE, Places
from bench.samples import Samples, quantile
from bench.sizes import Sizes
from podium.testing.broker_server import nats


class Run:
    def __init__(self, places: Places, sizes: Sizes, contestants: list[Contestant]) -> None:
        self.samples = Samples()
        self._places = places
        self._sizes = sizes
        self._contestants = contestants
        self._began = time.monotonic()

    def measures(self) -> dict[str, Callable[[], None]]:
        return {
            "burst": self._burst,
            "one": self._one,
            "small": self._small,
            "backlog": self._backlog,
            "snapshot": self._snapshot,
            "relay": self._relay,
            "idle": self._idle,
            "route": self._route,
            "up": self._up,
            "simulator": self._simulator,
        }

    def _burst(self) -> None:
        """In turn, so that a disturbance does not hit all rounds of one contestant."""
        items = self._sizes.items
        for turn in self._rounds():
            for contestant in self._contestants:
                for batch in contestant.batches:
                    self._say(f"burst {turn}: {contestant.name}, batches of {batch:,}")
                    with self._places.fresh(contestant.store) as at:
                        burst, memory = apart(contestant.burst, at, items, batch)
                    name = contestant.name
                    self.samples.add(name, f"enqueue {batch}", items / burst.enqueue_seconds)
                    self.samples.add(name, f"drain {batch}", items / burst.drain_seconds)
                    self.samples.add(name, "memory MiB", memory)

    def _one(self) -> None:
        for turn in self._rounds():
            for contestant in self._contestants:
                if contestant.one_by_one is None:
                    continue
                self._say(f"one item {turn}: {contestant.name}")
                with self._places.fresh(contestant.store) as at:
                    turns, _ = apart(contestant.one_by_one, at, self._sizes.one_by_one)
                begun, seen = turns.begun_seconds, turns.seen_seconds
                self.samples.add(contestant.name, "begun p50 ms", quantile(begun, 0.5) * 1e3)
                self.samples.add(contestant.name, "seen p50 ms", quantile(seen, 0.5) * 1e3)
                self.samples.add(contestant.name, "seen p95 ms", quantile(seen, 0.95) * 1e3)

    def _small(self) -> None:
        callers, calls = self._sizes.callers, self._sizes.calls
        fewer = max(1, calls // 6)
        for turn in self._rounds():
            self._say(f"small transactions {turn}")
            for name, store, count in (
                ("small-sqlite", SQLITE, calls),
                ("small-postgres", POSTGRES, fewer),
            ):
                with self._places.fresh(store) as at:
                    rate, _ = apart(small.transactions, at, callers, count)
                self.samples.add(name, "per second", rate)
            for name, coalesced in (("apart-postgres", False), ("coalesced-postgres", True)):
                with self._places.fresh(POSTGRES) as at:
                    rate, _ = apart(
                        small.enqueues, at, callers, calls if coalesced else fewer, coalesced
                    )
                self.samples.add(name, "per second", rate)

    def _backlog(self) -> None:
        sizes = self._sizes
        counts = {
            backlog.READY: sizes.ready,
            backlog.DELAYED: sizes.delayed,
            backlog.FINISHED: sizes.finished,
        }
        for store in (POSTGRES, SQLITE):
            for kind, rows in counts.items():
                self._say(f"backlog: {store} with {rows:,} {kind}")
                with self._places.fresh(store) as short, self._places.fresh(store) as long:
                    slow_down, _ = apart(
                        backlog.slow_down,
                        short,
                        long,
                        kind,
                        sizes.level,
                        rows,
                        sizes.stretches,
                        sizes.stretch_seconds,
                    )
                name = f"backlog-{store}-{kind}"
                self.samples.add(name, "rows", rows)
                self.samples.add(name, "claim slow-down", slow_down.claim)
                self.samples.add(name, "cycle slow-down", slow_down.cycle)
                self.samples.add(name, "items/s", slow_down.items_per_second)

    def _snapshot(self) -> None:
        sizes = self._sizes
        for _ in range(sizes.snapshot_rounds):
            for name, held in (("snapshot-free", False), ("snapshot-held", True)):
                self._say(f"{name}, {sizes.snapshot_seconds:g} s")
                with self._places.fresh(POSTGRES) as at:
                    quarters, _ = apart(
                        snapshot.quarters, at, sizes.level, sizes.snapshot_seconds, held
                    )
                whole = sum(quarter.cycle_seconds for quarter in quarters) / len(quarters)
                last = quarters[-1]
                self.samples.add(name, "items/s", backlog.BATCH / whole)
                self.samples.add(name, "items/s, last quarter", backlog.BATCH / last.cycle_seconds)
                self.samples.add(name, "claim seconds, last quarter", last.claim_seconds)

    def _relay(self) -> None:
        """A broker that syncs each message gets fewer of them: the rate is what counts."""
        for turn in self._rounds():
            for name, sync_always, messages in (
                ("relay", False, self._sizes.items),
                ("relay-sync", True, max(1, self._sizes.items // 4)),
            ):
                self._say(f"relay {turn}: {name}")
                with self._places.fresh(POSTGRES) as at, nats(sync_always=sync_always) as server:
                    found, _ = apart(relay.relayed, at, server.url, messages)
                self.samples.add(name, "messages/s", found.messages_per_second)
                self.samples.add(name, "bare/s", found.raw_per_second)

    def _idle(self) -> None:
        log = str(self._places.server.directory / "log")
        for store in (POSTGRES, SQLITE):
            self._say(f"idle on {store}, {self._sizes.idle_seconds:g} s")
            with self._places.fresh(store) as at:
                found, _ = apart(idle.idle, at, self._sizes.idle_seconds, log)
            self.samples.add(f"idle-{store}", "queries/s", found.queries_per_second)
            self.samples.add(f"idle-{store}", "cpu share", found.cpu_share)

    def _route(self) -> None:
        for turn in self._rounds():
            for kind in ("bare", "podium"):
                self._say(f"route {turn}: {kind}")
                rate, _ = apart(route.requests_per_second, kind, self._sizes.route_seconds)
                self.samples.add(f"route-{kind}", "requests/s", rate)

    def _up(self) -> None:
        for turn in self._rounds():
            self._say(f"podium up {turn}, {self._sizes.idle_seconds:g} s idle")
            found, _ = apart(up.up, self._sizes.idle_seconds)
            self.samples.add("up", "ready seconds", found.ready_seconds)
            self.samples.add("up", "memory MiB", found.memory_mib)
            self.samples.add("up", "idle cpu share", found.idle_cpu_share)
            self.samples.add("up", "help seconds", up.help_seconds())

    def _simulator(self) -> None:
        self._say(f"simulator, {self._sizes.seeds} seeds")
        rate = simulator.seeds_per_second(self._sizes.seeds)
        if rate is not None:
            self.samples.add("simulator", "seeds/s", rate)

    def _rounds(self) -> Iterator[str]:
        for n in range(self._sizes.rounds):
            yield f"{n + 1}/{self._sizes.rounds}"

    def _say(self, what: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {what}", file=sys.stderr, flush=True)
