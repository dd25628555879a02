"""Named queries in, models out. Nothing else of this domain touches SQL."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from podium.contracts.scopes import Scope
from podium.domains.access.model import Entry, Kind, LoggedEntry, Token
from podium.kernel.store import Row, Tx


async def add_token(
    tx: Tx,
    *,
    id: str,
    family: str,
    kind: Kind,
    name: str,
    hash: str,
    scopes: frozenset[Scope],
    created_by: str,
    valid_seconds: float,
) -> Token:
    rows = await tx.rows(
        "access.add_token",
        id=id,
        family=family,
        kind=kind,
        name=name,
        hash=hash,
        scopes=",".join(sorted(scopes)),
        created_by=created_by,
        valid_seconds=valid_seconds,
    )
    return _token(rows[0])


async def token_by_hash(tx: Tx, hash: str) -> tuple[Token, datetime] | None:
    """The token, and the database's time to judge it by."""
    rows = await tx.rows("access.token_by_hash", hash=hash)
    return (_token(rows[0]), rows[0].now_at) if rows else None


async def token(tx: Tx, id: str) -> Token | None:
    rows = await tx.rows("access.token", id=id)
    return _token(rows[0]) if rows else None


async def tokens(tx: Tx, *, everything: bool, before: str, n: int) -> list[Token]:
    rows = await tx.rows("access.tokens", everything=int(everything), before=before, n=n)
    return [_token(row) for row in rows]


async def siblings(tx: Tx, family: str) -> list[str]:
    return [row.id for row in await tx.rows("access.siblings", family=family)]


async def shorten(tx: Tx, id: str, valid_seconds: float) -> None:
    await tx.rows("access.shorten", id=id, valid_seconds=valid_seconds)


async def revoke(tx: Tx, id: str) -> bool:
    return bool(await tx.rows("access.revoke", id=id))


async def revoke_opened(tx: Tx, id: str) -> None:
    await tx.rows("access.revoke_opened", id=id)


class Taken(NamedTuple):
    used: int
    """By everybody in this period, this take included."""
    seconds_left: float


async def take(tx: Tx, bucket: str, *, period_seconds: float, wanted: int) -> Taken:
    rows = await tx.rows(
        "access.take",
        bucket=bucket,
        period_micros=round(period_seconds * 1e6),
        period_seconds=period_seconds,
        wanted=wanted,
    )
    return Taken(rows[0].used, rows[0].left_micros / 1e6)


async def record(tx: Tx, entries: list[Entry]) -> list[None]:
    await tx.rows("access.record", entries=entries)
    return [None] * len(entries)


async def log(tx: Tx, *, before: int, actor: str | None, n: int) -> list[LoggedEntry]:
    return [
        LoggedEntry(*row) for row in await tx.rows("access.log", before=before, actor=actor, n=n)
    ]


def _token(row: Row) -> Token:
    return Token(
        id=row.id,
        family=row.family,
        kind=Kind(row.kind),
        name=row.name,
        scopes=frozenset(Scope(part) for part in row.scopes.split(",")),
        created_by=row.created_by,
        created_at=row.created_at,
        expire_at=row.expire_at,
        revoked_at=row.revoked_at,
    )
