"""The journal, live: in order, without loss or repeat, for as long as one may, and no further than one reads (P30, W9, W10)."""

from __future__ import annotations

import asyncio
import re
import tracemalloc
from typing import Any

import httpx
import pytest

from podium.contracts.scopes import Scope
from podium.http import events, hub
from podium.http.hub import LINES_MAX, Hub
from podium.kernel import journal
from podium.kernel.journal import Event
from podium.kernel.store import Tx
from tests.http.calls import Header, Reader, ask, bearer, scope_of, streaming, until
from tests.http.conftest import MakeHome
from tests.http.houses import Home, declared_routes, postgres_home, with_front


async def write(home: Home, *names: str, kind: str = "work", id: str = "a") -> None:
    """Lines of the journal, in one transaction."""
    await home.store.write(journal.append, [Event(kind, id, name) for name in names])


async def connected(reader: Reader) -> None:
    assert re.fullmatch(r": connected\n: \d+-\d+\n\n", await reader.next_part())
    assert reader.status == 200


async def positioned(reader: Reader, home: Home) -> None:
    """Until the stream hears of what is written from now on."""
    await connected(reader)
    await until(lambda: api(home)._hub._streams)


def api(home: Home) -> events.EventsApi:
    (route,) = [it for it in declared_routes(home.app) if it.path == "/api/events"]
    found: events.EventsApi = route.endpoint.__self__  # type: ignore[attr-defined]
    return found


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BEAT_SECONDS", 0.05)


@pytest.fixture
async def mine(home: Home) -> list[Header]:
    return [bearer(home.admin)]


async def test_what_is_written_is_told_in_order(home: Home, mine: list[Header]) -> None:
    async with streaming(home, headers=mine) as reader:
        await positioned(reader, home)
        for n in range(5):
            await write(home, f"e{n}a", f"e{n}b")
        found = await reader.events(10)
    assert [it.data["event"] for it in found] == [f"e{n}{x}" for n in range(5) for x in "ab"]
    assert all(it.event == "journal" and it.id == it.data["position"] for it in found)


async def test_a_new_stream_begins_now(home: Home, mine: list[Header]) -> None:
    await write(home, "before")
    async with streaming(home, headers=mine) as reader:
        await positioned(reader, home)
        await write(home, "after")
        (found,) = await reader.events(1)
    assert found.data["event"] == "after"


async def test_a_stream_from_the_beginning_tells_everything(home: Home, mine: list[Header]) -> None:
    await write(home, *(f"e{n}" for n in range(50)))
    async with streaming(home, "/api/events?after=0-0&kind=work", mine) as reader:
        found = await reader.events(50)
    assert [it.data["event"] for it in found] == [f"e{n}" for n in range(50)]


async def test_a_reader_that_comes_back_misses_nothing_and_hears_nothing_twice(
    home: Home, mine: list[Header]
) -> None:
    """Readers leave and come back while five writers write, in transactions that overlap."""
    total = 200

    async def writer(name: int) -> None:
        for n in range(total // 5):
            await write(home, f"w{name}-{n}", id=f"x{name}")

    async def all_writers() -> None:
        await asyncio.gather(*(writer(n) for n in range(5)))

    writing = asyncio.create_task(all_writers())
    found: list[Any] = []
    last = "0-0"
    while len(found) < total:
        headers = [*mine, (b"last-event-id", last.encode())]
        async with streaming(home, "/api/events?kind=work", headers) as reader:
            await connected(reader)
            for event in await reader.events(min(23, total - len(found))):
                found.append(event.data["event"])
                last = event.id
    await writing
    assert len(found) == len(set(found)) == total
    for name in range(5):
        own = [it for it in found if it.startswith(f"w{name}-")]
        assert own == [f"w{name}-{n}" for n in range(total // 5)]


async def test_the_header_wins_over_the_address(home: Home, mine: list[Header]) -> None:
    await write(home, "one", "two", "three")
    async with streaming(home, "/api/events?after=0-0&kind=work", mine) as reader:
        first, second, _ = await reader.events(3)
    headers = [*mine, (b"last-event-id", second.id.encode())]
    async with streaming(home, f"/api/events?after={first.id}&kind=work", headers) as reader:
        (found,) = await reader.events(1)
    assert found.data["event"] == "three"


async def test_only_what_was_asked_for_is_told(home: Home, mine: list[Header]) -> None:
    await write(home, "a1", id="a")
    await write(home, "b1", id="b")
    await write(home, "t1", kind="token", id="a")
    await write(home, "a2", id="a")
    await write(home, "end", kind="end", id="end")
    for query, wanted in (
        ("kind=work", ["a1", "b1", "a2"]),
        ("kind=work&id=a", ["a1", "a2"]),
        ("id=b", ["b1"]),
    ):
        async with streaming(home, f"/api/events?after=0-0&{query}", mine) as reader:
            found = await reader.events(len(wanted))
            assert [it.data["event"] for it in found] == wanted


async def test_text_of_others_cannot_begin_an_event(home: Home, mine: list[Header]) -> None:
    evil = 'x\n\nevent: journal\ndata: {"event":"forged"}\n\n'
    await home.store.write(
        journal.append, [Event("work", "a", "real", reason=evil, data={"k": evil})]
    )
    await write(home, "next")
    async with streaming(home, "/api/events?after=0-0&kind=work", mine) as reader:
        first, second = await reader.events(2)
    assert (first.data["event"], second.data["event"]) == ("real", "next")
    assert first.data["reason"] == evil


async def test_a_quiet_stream_says_that_it_lives(home: Home, mine: list[Header]) -> None:
    async with streaming(home, headers=mine) as reader:
        await connected(reader)
        for _ in range(2):
            part = await reader.next_part()
            assert part.startswith(": ")


async def test_a_reader_that_stops_reading_is_let_go_and_costs_little(embedded: Home) -> None:
    async with streaming(embedded, headers=[bearer(embedded.admin)]) as reader:
        await positioned(reader, embedded)
        tracemalloc.start()
        for _ in range(12):
            lines = [Event("work", "a", "e", data={"text": f"{n:04}" * 250}) for n in range(1_000)]
            await embedded.store.write(journal.append, lines)
            await asyncio.sleep(0)
        await until(lambda: api(embedded)._hub._end.seq >= 12_000)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # 12 MB were written; what is kept for a reader is at most LINES_MAX lines and what it was sent.
        assert held < 7 * 1024 * 1024
        found = []
        while (event := await reader.next_event()) is not None:
            found.append(event)
        assert found[-1].event == "overflow"
        assert LINES_MAX <= len(found) - 1 <= 3 * LINES_MAX
        seqs = [it.data["seq"] for it in found[:-1]]
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs))), "what it got is without a gap"


async def test_after_an_overflow_one_goes_on_where_one_was(
    home: Home, mine: list[Header], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "LINES_MAX", 10)
    async with streaming(home, headers=mine) as reader:
        await positioned(reader, home)
        for n in range(60):
            await write(home, f"e{n}")
        await until(lambda: any(it._is_over for it in api(home)._hub._streams))
        found = []
        while (event := await reader.next_event()) is not None:
            found.append(event)
    assert found.pop().event == "overflow"
    headers = [*mine, (b"last-event-id", found[-1].id.encode())]
    async with streaming(home, "/api/events?kind=work", headers) as reader:
        found += await reader.events(60 - len(found))
    assert [it.data["event"] for it in found] == [f"e{n}" for n in range(60)]


async def test_a_slow_reader_slows_nobody(home: Home, mine: list[Header]) -> None:
    async with streaming(home, headers=mine) as slow, streaming(home, headers=mine) as quick:
        await positioned(slow, home)
        await connected(quick)
        await until(lambda: len(api(home)._hub._streams) == 2)
        for n in range(100):
            await write(home, f"e{n}")
        assert len(await quick.events(100)) == 100


async def test_a_revoked_token_ends_its_stream_within_five_seconds(
    home: Home, admin: httpx.AsyncClient
) -> None:
    issued = await home.issue(Scope.READ)
    async with streaming(home, headers=[bearer(issued.text)]) as reader:
        await positioned(reader, home)
        assert (await admin.delete(f"/api/tokens/{issued.token.id}")).status_code == 200
        await home.advance(5.0)
        assert await reader.next_event() is not None
        while await reader.next_event() is not None:
            pass
        assert reader.is_over
    assert events.BEAT_SECONDS < 3.0 + 0.001


async def test_a_busy_stream_ends_too(home: Home, admin: httpx.AsyncClient) -> None:
    """Whoever is always told something new is asked for its token all the same."""
    issued = await home.issue(Scope.READ)
    async with streaming(home, "/api/events?kind=nothing", [bearer(issued.text)]) as reader:
        await positioned(reader, home)
        assert (await admin.delete(f"/api/tokens/{issued.token.id}")).status_code == 200
        await home.advance(5.0)

        async def chatter() -> None:
            while True:
                await write(home, "e")

        talking = asyncio.create_task(chatter())
        try:
            assert await reader.next_event() is None
        finally:
            talking.cancel()


async def test_streams_are_counted_and_there_are_only_so_many(make_home: MakeHome) -> None:
    home = await make_home(front=with_front(streams_max=2))
    headers = [bearer(home.admin)]

    def open_count() -> float | None:
        return home.house.metrics.registry.get_sample_value("podium_http_streams")

    async with streaming(home, headers=headers) as one:
        await connected(one)
        async with streaming(home, headers=headers) as two:
            await connected(two)
            assert open_count() == 2
            refused = await ask(home, "GET", "/api/events", headers)
            assert refused.status == 503
            assert refused.headers["retry-after"] == "1"
        assert open_count() == 1
        async with streaming(home, headers=headers) as three:
            await connected(three)
    assert open_count() == 0
    assert api(home)._hub._follower is None, "nobody listens, so nobody follows"


async def test_many_who_come_at_once_do_not_get_more(make_home: MakeHome) -> None:
    home = await make_home(front=with_front(streams_max=3))
    readers = [streaming(home, headers=[bearer(home.admin)]) for _ in range(10)]
    opened = [await it.__aenter__() for it in readers]
    for reader in opened:
        await reader.next_part()
    assert sorted(it.status for it in opened) == [200] * 3 + [503] * 7
    for it in readers:
        await it.__aexit__(None, None, None)
    assert home.house.metrics.registry.get_sample_value("podium_http_streams") == 0


async def test_a_stream_whose_reader_was_gone_from_the_start_leaves_nothing_open(
    home: Home, mine: list[Header]
) -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise OSError("the connection is gone")

    for _ in range(3):
        try:
            await home.app(scope_of("GET", "/api/events", mine), receive, send)
        except OSError:
            pass
    assert home.house.metrics.registry.get_sample_value("podium_http_streams") == 0
    assert home.app._load.count == 0  # type: ignore[attr-defined]


async def test_streams_end_when_the_server_stops(home: Home, mine: list[Header]) -> None:
    async with streaming(home, headers=mine) as reader:
        await positioned(reader, home)
        home.house.readiness.stopping()
        while await reader.next_event() is not None:
            pass
        assert reader.is_over


async def test_one_follower_serves_all_streams(
    embedded: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many read: the journal is read once."""
    reads = 0
    read = embedded.store.read

    async def counted(body: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal reads
        reads += body is journal.tail
        return await read(body, *args, **kwargs)

    monkeypatch.setattr(embedded.store, "read", counted)
    shared = Hub(embedded.store)
    streams = [await shared.open(None) for _ in range(20)]
    for stream in streams:
        assert await stream.next(0.01) == []
    before = reads
    for n in range(10):
        await write(embedded, f"e{n}")
        for stream in streams:
            lines = await stream.next(5.0)
            assert [it.event for it in lines] == [f"e{n}"]
    assert reads - before <= 2 * 10 + 1
    for stream in streams:
        stream.close()


async def test_a_stream_that_looked_too_early_looks_again(
    embedded: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written between its look and its joining the others was told to them alone."""
    shared = Hub(embedded.store)
    before = await embedded.store.read(journal.end)
    others = await shared.open(None)
    assert await others.next(0.01) == []
    await write(embedded, "in between")
    assert len(await others.next(5.0)) == 1
    late = await shared.open(before)
    page = shared.page

    async def too_early(after: journal.Position) -> list[journal.Line]:
        monkeypatch.setattr(shared, "page", page)
        return []

    monkeypatch.setattr(shared, "page", too_early)
    lines = await late.next(0.01) or await late.next(0.01)
    assert [line.event for line in lines] == ["in between"]
    others.close()
    late.close()


async def test_the_hub_goes_on_when_the_store_comes_back(
    embedded: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "PAUSE_AFTER_FAILURE_SECONDS", 0.01)
    failing = False
    tail = journal.tail

    async def sometimes(tx: Tx, **how: Any) -> Any:
        if failing:
            raise RuntimeError("the store is away")
        return await tail(tx, **how)

    monkeypatch.setattr(journal, "tail", sometimes)
    async with streaming(embedded, headers=[bearer(embedded.admin)]) as reader:
        await positioned(reader, embedded)
        failing = True
        await write(embedded, "while away")
        await asyncio.sleep(0.05)
        failing = False
        (found,) = await reader.events(1)
        assert found.data["event"] == "while away"


async def test_a_reader_that_is_cancelled_stops_reading(postgres_url: str) -> None:
    """At whatever moment: one that goes on regardless would tell what somebody else tells too."""
    async with postgres_home(postgres_url) as home:

        async def read_on() -> None:
            while True:
                await home.store.read(journal.tail)

        for n in range(150):
            reading = asyncio.create_task(read_on())
            for _ in range(n % 17):
                await asyncio.sleep(0)
            if n % 3:
                await asyncio.sleep(0.0003 * (n % 7))
            reading.cancel()
            done, _ = await asyncio.wait({reading}, timeout=5.0)
            assert done, "it reads on"
            assert reading.cancelled()
