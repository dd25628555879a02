"""Secrets by name, in the table `secrets`. Bodies take `tx` first, as everywhere.

Whatever passes through here in the clear is made known to the redactor before anybody can log it.
"""

from __future__ import annotations

from podium.kernel.errors import Invalid, NotFound, PodiumError, TooLarge
from podium.kernel.redactor import REDACTOR, Redactor
from podium.kernel.secrets.envelope import BrokenSeal, RandomBytes, open_, rewrap, seal
from podium.kernel.secrets.keyring import KeyMissing, Keyring
from podium.kernel.secrets.secret import Secret
from podium.kernel.store import Row, Tx
from podium.kernel.telemetry import logger
from podium.kernel.work.decide import name as check_name

log = logger(__name__)

BYTES_MAX = 64 * 1024


class Secrets:
    def __init__(
        self, keyring: Keyring, *, random_bytes: RandomBytes, redactor: Redactor = REDACTOR
    ) -> None:
        self.keyring = keyring
        self._random_bytes = random_bytes
        self._redactor = redactor
        for key in keyring:
            redactor.add(key.reveal_bytes())

    async def put(self, tx: Tx, name: str, value: str | bytes | Secret) -> None:
        """Keep a value under a name, instead of what was there."""
        check_name("secret name", name)
        data = _checked(name, value)
        if why_not := self._redactor.add(data):
            log.warning("secret cannot be masked", name=name, reason=why_not)
        envelope = seal(self.keyring, name, data, self._random_bytes)
        await tx.rows("secrets.put", name=name, sealed=envelope.text, key_id=envelope.key_id)

    async def get(self, tx: Tx, name: str) -> Secret:
        """Open one. NotFound, KeyMissing, or BrokenSeal if it was tampered with."""
        check_name("secret name", name)
        rows = await tx.rows("secrets.get", name=name)
        if not rows:
            raise NotFound(f"there is no secret {name!r}", name=name)
        return self._open(rows[0])

    async def delete(self, tx: Tx, name: str) -> bool:
        """True if there was one. Its value stays masked for as long as this process runs."""
        check_name("secret name", name)
        return bool(await tx.rows("secrets.delete", name=name))

    async def names(self, tx: Tx, *, after: str = "", n: int = 1_000) -> list[str]:
        """Names in order, a page at a time: the next page begins after the last of this one."""
        return [row.name for row in await tx.rows("secrets.names", after=after, n=n)]

    async def learn(self, tx: Tx, *, after: str = "", n: int = 1_000) -> list[str]:
        """Make the redactor know a page of secrets, and return their names.

        For the start of a process: a job that got its secret from the process before may print it
        to this one. What cannot be opened cannot be masked, and is only reported.
        """
        rows = await tx.rows("secrets.page", after=after, n=n)
        for row in rows:
            try:
                self._open(row)
            except (KeyMissing, BrokenSeal) as error:
                log.error("secret not readable", name=row.name, error=str(error))
        return [row.name for row in rows]

    async def rotate(self, tx: Tx, n: int = 100) -> int:
        """Re-wrap up to n secrets for the current master key, and say how many are left.

        Call it until it says 0; then the other keys can be dropped. If some are left and none of
        them can be re-wrapped, it raises why.
        """
        current = self.keyring.current.id
        others = [key.id for key in self.keyring if key.id != current]
        rows = await tx.rows("secrets.sealed_with", keys=[(id,) for id in others], n=n)
        fresh, broken = self._rewrapped(rows)
        await tx.rows("secrets.rewrap", items=fresh)
        left = await tx.rows("secrets.left", key_id=current)
        if left and not fresh:
            self._refuse_to_go_on(left, broken)
        return sum(row.count for row in left)

    def _refuse_to_go_on(self, left: list[Row], broken: PodiumError | None) -> None:
        """Only when nothing was re-wrapped: raising takes back what this transaction did."""
        if broken:
            raise broken
        # What somebody else is re-wrapping at this moment is left too, but it is not stuck.
        for row in left:
            self.keyring.find(row.key_id, f"secret {row.name!r}")

    def _rewrapped(
        self, rows: list[Row]
    ) -> tuple[list[tuple[str, str, str, str]], PodiumError | None]:
        """One that is broken does not keep the others from leaving an old key."""
        fresh: list[tuple[str, str, str, str]] = []
        broken: PodiumError | None = None
        for row in rows:
            try:
                envelope = rewrap(self.keyring, row.name, row.sealed, self._random_bytes)
            except (BrokenSeal, KeyMissing) as error:
                broken = error
                log.error("secret not re-wrapped", name=row.name, error=str(error))
            else:
                fresh.append((row.name, row.sealed, envelope.text, envelope.key_id))
        return fresh, broken

    def _open(self, row: Row) -> Secret:
        value = open_(self.keyring, row.name, row.sealed)
        self._redactor.add(value)
        return Secret(row.name, value)


def _checked(name: str, value: str | bytes | Secret) -> bytes:
    if isinstance(value, Secret):
        data = value.reveal_bytes()
    elif isinstance(value, bytes):
        data = value
    elif isinstance(value, str):
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise Invalid(f"secret {name!r} is not valid Unicode", name=name) from None
    else:
        raise Invalid(f"secret {name!r} is text or bytes, not {type(value).__name__}", name=name)
    if not data:
        raise Invalid(f"secret {name!r} is empty", name=name)
    if len(data) > BYTES_MAX:
        raise TooLarge(f"secret {name!r} has {len(data)} bytes; the most is {BYTES_MAX}", name=name)
    return data
