"""Secrets on every store: sealed in the table, opened by name, moved to a new key while in use."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from podium.kernel import journal
from podium.kernel.errors import Invalid, NotFound, TooLarge
from podium.kernel.journal import Event
from podium.kernel.redactor import MASK, REDACTOR, Redactor
from podium.kernel.secrets import BrokenSeal, KeyMissing, Keyring, Secret, Secrets
from podium.kernel.secrets.keyring import MasterKey
from podium.kernel.store import Store, Tx
from podium.testing.worlds import World
from tests.canaries import CANARIES, FORMS, captured_log, leaks, texts
from tests.worlds import PostgresWorld, postgres_world, sqlite_world

OLD, NEW = os.urandom(32), os.urandom(32)
EVERYTHING = "select name, sealed, key_id from secrets order by name"


def secrets_with(*keys: bytes, redactor: Redactor | None = None) -> Secrets:
    keyring = Keyring([MasterKey(key) for key in keys])
    return Secrets(
        keyring,
        random_bytes=os.urandom,
        redactor=Redactor() if redactor is None else redactor,
    )


class SecretsSuite:
    @pytest.fixture
    def redactor(self) -> Redactor:
        return Redactor()

    @pytest.fixture
    def secrets(self, redactor: Redactor) -> Secrets:
        return secrets_with(OLD, redactor=redactor)

    @pytest.fixture
    def log(self, redactor: Redactor) -> Iterator[io.StringIO]:
        with captured_log(redactor) as stream:
            yield stream

    # Keeping ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("value", CANARIES.values(), ids=CANARIES)
    async def test_a_value_comes_back_and_is_nowhere_in_the_table(
        self, world: World, secrets: Secrets, value: str | bytes
    ) -> None:
        await world.store.write(secrets.put, "canary", value)
        secret = await world.store.read(secrets.get, "canary")
        assert secret.reveal_bytes() == (value.encode() if isinstance(value, str) else value)
        (row,) = await world.query(EVERYTHING)
        for form in FORMS.values():
            assert not leaks(" ".join(row), form(value))
        assert row.key_id == secrets.keyring.current.id

    async def test_putting_again_replaces_the_value_and_says_when(
        self, world: World, secrets: Secrets
    ) -> None:
        when = "select updated_at from secrets"
        await world.store.write(secrets.put, "a", "first value")
        first = (await world.query(when))[0].updated_at
        await world.advance(60)
        await world.store.write(secrets.put, "a", Secret("other", b"second value"))
        assert (await world.store.read(secrets.get, "a")).reveal() == "second value"
        assert 59 < ((await world.query(when))[0].updated_at - first).total_seconds() < 120

    async def test_a_deleted_secret_is_gone(self, world: World, secrets: Secrets) -> None:
        await world.store.write(secrets.put, "a", "some value")
        assert await world.store.write(secrets.delete, "a") is True
        assert await world.store.write(secrets.delete, "a") is False
        with pytest.raises(NotFound):
            await world.store.read(secrets.get, "a")

    async def test_names_come_in_order_and_in_pages(self, world: World, secrets: Secrets) -> None:
        for name in ("c", "a", "d", "b"):
            await world.store.write(secrets.put, name, f"value of {name}")
        assert await world.store.read(secrets.names) == ["a", "b", "c", "d"]
        assert await world.store.read(secrets.names, n=2) == ["a", "b"]
        assert await world.store.read(secrets.names, after="b", n=9) == ["c", "d"]

    @pytest.mark.parametrize("name", ["", "x" * 256, "a\0b", "line\nbreak"], ids=repr)
    async def test_what_is_no_name_is_refused(
        self, world: World, secrets: Secrets, name: str
    ) -> None:
        with pytest.raises(Invalid):
            await world.store.write(secrets.put, name, "some value")
        with pytest.raises(Invalid):
            await world.store.read(secrets.get, name)
        with pytest.raises(Invalid):
            await world.store.write(secrets.delete, name)

    async def test_what_is_no_value_is_refused_without_being_repeated(
        self, world: World, secrets: Secrets
    ) -> None:
        for value in ("", b"", "\ud800 swordfish", {"swordfish": 1}):
            with pytest.raises(Invalid) as refused:
                await world.store.write(secrets.put, "a", value)  # type: ignore[arg-type]
            assert "swordfish" not in str(refused.value)
        with pytest.raises(TooLarge):
            await world.store.write(secrets.put, "a", "x" * 65_537)
        assert await world.query(EVERYTHING) == []

    # Tampering -------------------------------------------------------------------------------

    async def test_a_row_that_was_moved_to_another_name_does_not_open(
        self, world: World, secrets: Secrets
    ) -> None:
        await world.store.write(secrets.put, "mine", "some value")
        await world.store.write(secrets.put, "yours", "other value")
        await world.query(
            "update secrets set sealed = (select sealed from secrets where name = 'yours') where name = 'mine'"
        )
        with pytest.raises(BrokenSeal, match="mine"):
            await world.store.read(secrets.get, "mine")
        assert (await world.store.read(secrets.get, "yours")).reveal() == "other value"

    async def test_a_dump_without_the_key_is_of_no_use(
        self, world: World, secrets: Secrets
    ) -> None:
        await world.store.write(secrets.put, "a", "some value")
        with pytest.raises(KeyMissing, match=secrets.keyring.current.id):
            await world.store.read(secrets_with(NEW).get, "a")

    # Rotation --------------------------------------------------------------------------------

    async def test_a_rotation_in_pieces_and_then_the_old_key_is_dropped(
        self, world: World, secrets: Secrets
    ) -> None:
        names = [f"secret-{n:02}" for n in range(25)]
        for name in names:
            await world.store.write(secrets.put, name, f"value of {name}")
        both = secrets_with(NEW, OLD)
        await world.store.write(both.put, "new", "sealed with the new key")
        assert (await world.store.read(both.get, "secret-07")).reveal() == "value of secret-07"
        left = [await world.store.write(both.rotate, 10) for _ in range(4)]
        assert left == [15, 5, 0, 0]
        alone = secrets_with(NEW)
        for name in names:
            assert (await world.store.read(alone.get, name)).reveal() == f"value of {name}"
        with pytest.raises(KeyMissing):
            await world.store.read(secrets.get, "secret-07")

    async def test_a_rotation_does_not_count_as_a_change_of_the_value(
        self, world: World, secrets: Secrets
    ) -> None:
        when = "select updated_at from secrets"
        await world.store.write(secrets.put, "a", "some value")
        before = await world.query(when)
        await world.advance(60)
        assert await world.store.write(secrets_with(NEW, OLD).rotate) == 0
        assert await world.query(when) == before

    async def test_a_rotation_that_lacks_a_key_does_the_rest_and_then_says_which(
        self, world: World, secrets: Secrets
    ) -> None:
        lost = secrets_with(os.urandom(32))
        await world.store.write(lost.put, "a", "sealed with a lost key")
        await world.store.write(secrets.put, "b", "some value")
        both = secrets_with(NEW, OLD)
        assert await world.store.write(both.rotate) == 1
        with pytest.raises(KeyMissing, match=lost.keyring.current.id):
            await world.store.write(both.rotate)
        assert (await world.store.read(secrets_with(NEW).get, "b")).reveal() == "some value"

    async def test_a_broken_secret_does_not_keep_the_others_on_an_old_key(
        self, world: World, secrets: Secrets, log: io.StringIO
    ) -> None:
        for name in ("a", "b", "c"):
            await world.store.write(secrets.put, name, f"value of {name}")
        await world.query(
            "update secrets set sealed = (select sealed from secrets where name = 'b') where name = 'a'"
        )
        both = secrets_with(NEW, OLD)
        assert await world.store.write(both.rotate) == 1
        assert "secret not re-wrapped" in log.getvalue()
        with pytest.raises(BrokenSeal, match="'a'"):
            await world.store.write(both.rotate)
        alone = secrets_with(NEW)
        assert (await world.store.read(alone.get, "c")).reveal() == "value of c"

    async def test_a_value_that_was_put_meanwhile_is_not_overwritten(
        self, world: World, secrets: Secrets
    ) -> None:
        await world.store.write(secrets.put, "a", "first value")
        (row,) = await world.query(EVERYTHING)
        await world.store.write(secrets.put, "a", "second value")
        stale = [("a", row.sealed, "podium:v1:stale", "stale")]

        async def rewrap(tx: Tx) -> None:
            await tx.rows("secrets.rewrap", items=stale)

        await world.store.write(rewrap)
        assert (await world.store.read(secrets.get, "a")).reveal() == "second value"

    # Never told ------------------------------------------------------------------------------

    @pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
    async def test_the_journal_does_not_tell(
        self, world: World, redactor: Redactor, form: object
    ) -> None:
        assert callable(form)
        for value in CANARIES.values():
            assert redactor.add(value) is None
        events = [
            Event("run", "r", "failed", reason=f"x{told}y", data={"error": [told], told: told})
            for told in map(form, CANARIES.values())
        ]

        async def append(tx: Tx) -> None:
            await journal.append(tx, events, redactor=redactor)

        await world.store.write(append)
        lines = await world.store.read(journal.read, "run", "r")
        assert len(lines) == len(CANARIES)
        for line, value in zip(lines, CANARIES.values(), strict=True):
            assert line.reason is not None
            assert line.data is not None
            shown = "\n".join([line.reason, line.data, *texts(json.loads(line.data))])
            assert not leaks(shown, form(value))
            assert MASK in line.reason
            assert MASK in line.data

    async def test_the_journal_masks_what_the_process_knows(self, world: World) -> None:
        REDACTOR.add("known-to-this-process")
        event = Event("run", "r", "failed", reason="no login: known-to-this-process", data={"n": 7})
        await world.store.write(journal.append, [event])
        (line,) = await world.store.read(journal.read, "run", "r")
        assert (line.reason, line.data) == (f"no login: {MASK}", '{"n":7}')

    async def test_what_is_put_or_opened_is_masked_from_then_on(
        self, world: World, secrets: Secrets, redactor: Redactor
    ) -> None:
        await world.store.write(secrets.put, "a", "swordfish-77")
        assert redactor.mask("it is swordfish-77") == f"it is {MASK}"
        other = Redactor()
        await world.store.read(secrets_with(OLD, redactor=other).get, "a")
        assert other.mask("it is swordfish-77") == f"it is {MASK}"
        assert other.mask(f"{OLD.hex()}") == MASK

    async def test_a_new_process_learns_all_of_them_even_if_one_is_broken(
        self, world: World, secrets: Secrets, redactor: Redactor, log: io.StringIO
    ) -> None:
        for name in ("a", "b", "c"):
            await world.store.write(secrets.put, name, f"value-of-{name}")
        await world.query("update secrets set sealed = 'nonsense' where name = 'b'")
        fresh = Redactor()
        starting = secrets_with(OLD, redactor=fresh)
        assert await world.store.read(starting.learn, n=2) == ["a", "b"]
        assert await world.store.read(starting.learn, after="b") == ["c"]
        assert fresh.mask("value-of-a value-of-c") == f"{MASK} {MASK}"
        assert json.loads(log.getvalue())["name"] == "b"

    async def test_a_value_that_cannot_be_masked_is_kept_and_said(
        self, world: World, secrets: Secrets, log: io.StringIO
    ) -> None:
        await world.store.write(secrets.put, "pin", "1234")
        assert (await world.store.read(secrets.get, "pin")).reveal() == "1234"
        line = json.loads(log.getvalue().splitlines()[0])
        assert (line["text"], line["name"]) == ("secret cannot be masked", "pin")
        assert "1234" not in log.getvalue()


class TestSecretsOnSQLite(SecretsSuite):
    @pytest.fixture
    async def world(self, tmp_path: Path) -> AsyncIterator[World]:
        async with sqlite_world(tmp_path / "podium.db") as world:
            yield world


class TestSecretsOnPostgres(SecretsSuite):
    @pytest.fixture
    async def world(self, migrated_url: str) -> AsyncIterator[PostgresWorld]:
        async with postgres_world(migrated_url) as world:
            yield world

    async def test_two_processes_rotate_at_once(
        self, world: PostgresWorld, secrets: Secrets
    ) -> None:
        names = [f"secret-{n:02}" for n in range(40)]
        for name in names:
            await world.store.write(secrets.put, name, f"value of {name}")

        async def rotate(store: Store) -> None:
            both = secrets_with(NEW, OLD)
            while await store.write(both.rotate, 3):
                pass

        await asyncio.gather(rotate(world.store), rotate(await world.another_store()))
        alone = secrets_with(NEW)
        for name in names:
            assert (await world.store.read(alone.get, name)).reveal() == f"value of {name}"
