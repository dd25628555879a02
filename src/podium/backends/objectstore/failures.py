"""An object store's errors in our words: what happened, and what to do about it.

Their own text is not passed on. It may be long, and it may quote requests with what was signed.
"""

from __future__ import annotations

import os
import re

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

from podium.kernel.errors import NotFound, PodiumError, Unavailable

CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
STATUS = re.compile(r"status code: ([0-9]{3})")
OS_ERROR = re.compile(r"\(os error ([0-9]{1,3})\)")
REFUSED = (401, 403)


def translated(error: Exception, where: str) -> PodiumError:
    text = str(error)
    code = _first(CODE, text)
    status = _first(STATUS, text)
    number = error.errno if isinstance(error, OSError) and error.errno else _first(OS_ERROR, text)
    if code == "NoSuchBucket":
        return Unavailable(f"there is no {where}: create it, or correct its address")
    if isinstance(error, FileNotFoundError):
        return NotFound(f"there is no such object in {where}")
    if number:
        # A folder: the operating system says why.
        return Unavailable(f"{where} cannot be used: {os.strerror(int(number))}")
    return from_answer(where, code, int(status or 0), denied=_is_denied(error))


def from_answer(where: str, code: str | None, status: int, *, denied: bool = False) -> Unavailable:
    """For what came over HTTP."""
    what = ", ".join([*filter(None, [code]), *([f"HTTP {status}"] if status else [])])
    if denied or status in REFUSED:
        return Unavailable(
            f"{where} refused us{f' ({what})' if what else ''}: check the access key id, the secret "
            "access key, the region and what they may do there",
            reason="blobs_refused",
        )
    return Unavailable(
        f"{where} did not answer as it should ({what or 'no connection'}): "
        "check that it runs and can be reached; the same call may work later",
        reason="blobs_unavailable",
    )


def code_in(text: str) -> str | None:
    return _first(CODE, text)


def _is_denied(error: Exception) -> bool:
    return isinstance(error, PermissionDeniedError | UnauthenticatedError)


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None
