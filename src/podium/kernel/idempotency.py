"""Idempotency: the same key and the same body get the same answer, and the work is done once.

The key is taken, the work is done and the answer is kept in one transaction. So if the answer was
lost on the way, or two callers came at once, whoever asks again is given the first answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from podium.kernel import payload
from podium.kernel.errors import KeyReused
from podium.kernel.store import Tx
from podium.kernel.work.decide import name

KEEP_SECONDS = 30 * 86_400.0


async def once(
    tx: Tx,
    *,
    key: str,
    body: bytes,
    do: Callable[[], Awaitable[Any]],
    keep_seconds: float = KEEP_SECONDS,
) -> Any:
    """The answer of `do`, run at most once per key. KeyReused if the key came with another body.

    `do` runs inside this transaction and returns what JSON can say.
    """
    name("idempotency key", key)
    digest = hashlib.sha256(body).hexdigest()
    began = await tx.rows("idempotency.begin", key=key, body_hash=digest, keep_seconds=keep_seconds)
    if not began:
        return await _known_answer(tx, key, digest)
    answer = payload.dumps(await do(), field="answer")
    await tx.rows("idempotency.answer", key=key, answer=answer)
    return payload.loads(answer)


async def _known_answer(tx: Tx, key: str, digest: str) -> Any:
    known = (await tx.rows("idempotency.known", key=key))[0]
    if known.body_hash != digest:
        raise KeyReused(key)
    return payload.loads(known.answer)


async def prune(tx: Tx, n: int = 2_000) -> int:
    return len(await tx.rows("idempotency.prune", n=n))
