"""Models as bytes. What JSON cannot say is refused here, where the caller's stack still shows why."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import BaseModel

from podium.contracts.errors import Code
from podium.sdk.errors import InvalidRequest

M = TypeVar("M", bound=BaseModel)


def encode(body: BaseModel) -> bytes:
    """The JSON of a request, without what the caller left to its default.

    Not the model's own serialiser: that writes NaN as null, and nobody would ever know.
    """
    try:
        text = json.dumps(
            body.model_dump(exclude_unset=True),
            allow_nan=False,
            ensure_ascii=False,
            separators=(",", ":"),
        )
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            Code.VALIDATION_INVALID_PARAMS, f"this cannot be sent as JSON: {error}"
        ) from None


def decode(model: type[M], answer: bytes) -> M:
    """Not as strictly as a server reads: times are text, and a newer server may say more than we know."""
    return model.model_validate_json(answer, strict=False, extra="ignore")
