"""What any store must promise about idempotency keys. P2: one key, one body, one answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podium.contracts.errors import Code
from podium.kernel import idempotency
from podium.kernel.errors import Invalid, KeyReused
from podium.kernel.store import Tx
from podium.testing.worlds import World

DAY = 86_400


class Till:
    """Takes money, and must not take it twice."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._take = world.know("insert into takings (amount) values (:amount)")
        self._count = world.know("select count(*) as count from takings")

    async def once(self, tx: Tx, key: str, body: bytes, *, fail: bool = False) -> Any:
        async def take() -> Any:
            await tx.rows(self._take, amount=5)
            if fail:
                raise RuntimeError("no change")
            return {"receipt": (await tx.rows(self._count))[0].count, "note": None}

        return await idempotency.once(tx, key=key, body=body, do=take)

    async def pay(self, key: str, body: bytes = b"5", *, fail: bool = False) -> Any:
        return await self.world.store.write(self.once, key, body, fail=fail)

    async def count(self) -> int:
        count: int = (await self.world.query("select count(*) as count from takings"))[0].count
        return count


class IdempotencySuite:
    @pytest.fixture
    async def till(self, world: World) -> Till:
        await world.script("create table takings (amount int not null)")
        return Till(world)

    async def test_the_same_key_and_body_get_the_same_answer(self, till: Till) -> None:
        first = await till.pay("k")
        assert first == {"receipt": 1, "note": None}
        assert await till.pay("k") == first
        assert await till.count() == 1

    async def test_another_key_is_another_call(self, till: Till) -> None:
        await till.pay("k")
        assert (await till.pay("l"))["receipt"] == 2

    async def test_the_same_key_with_another_body_is_a_conflict(self, till: Till) -> None:
        await till.pay("k", b"5")
        with pytest.raises(KeyReused) as refused:
            await till.pay("k", b"6")
        assert refused.value.code == Code.CONFLICT
        assert await till.count() == 1
        assert (await till.pay("k", b"5"))["receipt"] == 1

    async def test_many_callers_at_once_are_one_call(self, till: Till) -> None:
        answers = await asyncio.gather(*(till.pay("k") for _ in range(20)))
        assert answers == [{"receipt": 1, "note": None}] * 20
        assert await till.count() == 1

    async def test_callers_at_once_with_two_bodies_get_one_answer_or_a_conflict(
        self, till: Till
    ) -> None:
        calls = [till.pay("k", body) for body in (b"5", b"6") for _ in range(5)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, KeyReused)]
        assert len(refused) == 5
        assert await till.count() == 1

    async def test_a_call_that_failed_leaves_its_key_free(self, till: Till) -> None:
        with pytest.raises(RuntimeError):
            await till.pay("k", fail=True)
        assert await till.count() == 0
        assert (await till.pay("k", b"other"))["receipt"] == 1

    async def test_an_answer_that_is_not_json_leaves_nothing(
        self, world: World, till: Till
    ) -> None:
        async def body(tx: Tx) -> Any:
            async def do() -> Any:
                return object()

            return await idempotency.once(tx, key="k", body=b"", do=do)

        with pytest.raises(Invalid):
            await world.store.write(body)
        assert (await till.pay("k"))["receipt"] == 1

    async def test_an_answer_is_kept_for_thirty_days(self, world: World, till: Till) -> None:
        await till.pay("k")
        await world.advance(30 * DAY - 60)
        assert await world.store.write(idempotency.prune) == 0
        assert (await till.pay("k"))["receipt"] == 1
        await world.advance(120)
        assert (await till.pay("k", b"other"))["receipt"] == 2
        assert (await till.pay("k", b"other"))["receipt"] == 2

    async def test_what_has_expired_is_pruned(self, world: World, till: Till) -> None:
        for key in ("a", "b", "c"):
            await till.pay(key)
        await world.advance(30 * DAY + 1)
        await till.pay("new")
        assert await world.store.write(idempotency.prune, 2) == 2
        assert await world.store.write(idempotency.prune, 2) == 1
        assert await world.store.write(idempotency.prune, 2) == 0
        assert (await till.pay("new"))["receipt"] == 4

    @pytest.mark.parametrize("key", ["", "a\0", "x" * 256, "\ud800"], ids=lambda v: repr(v)[:8])
    async def test_a_key_that_is_no_name_is_refused(self, till: Till, key: str) -> None:
        with pytest.raises(Invalid):
            await till.pay(key)
        assert await till.count() == 0

    async def test_the_same_answer_may_be_nothing(self, world: World, till: Till) -> None:
        async def body(tx: Tx) -> Any:
            async def do() -> Any:
                return None

            return await idempotency.once(tx, key="k", body=b"", do=do)

        assert await world.store.write(body) is None
        assert await world.store.write(body) is None
