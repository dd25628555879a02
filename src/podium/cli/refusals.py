"""How a command fails: one line on stderr that says what is wrong and what to do next.

    podium: there is no server at http://127.0.0.1:8437; start one: podium up

| exit | means |
|---|---|
| 0 | done |
| 1 | refused or failed |
| 2 | called in a wrong way |
| 130 | interrupted with Ctrl-C |
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import typer

from podium.contracts.errors import Code

OK = 0
FAILED = 1
MISUSED = 2
INTERRUPTED = 130

# What to do about a refusal whose own words do not say.
NEXT = {
    Code.AUTH_INVALID_TOKEN: "set PODIUM_TOKEN to a valid one, or PODIUM_DATA_DIR to the folder of a server on this machine",
    Code.AUTH_EXPIRED_TOKEN: "have a new one made: podium token create",
    Code.AUTHZ_INSUFFICIENT_PERMISSIONS: "use a token that has that scope: podium token create --scope …",
    Code.RESOURCE_NOT_FOUND: "look at what there is: podium queues, podium deadletter list",
    Code.RATE_LIMIT_EXCEEDED: "wait a minute and try again",
    Code.INTERNAL_ERROR: "look in the server's log",
    Code.DATABASE_ERROR: "look in the server's log",
    Code.SERVICE_UNAVAILABLE: "run podium doctor to see what is wrong",
    Code.SERVICE_DEGRADED: "run podium doctor to see what is wrong",
}


class Refusal(Exception):
    """A command's own no."""

    def __init__(self, *lines: str, exit_code: int = FAILED) -> None:
        super().__init__(*lines)
        self.lines = lines
        self.exit_code = exit_code


def tell(error: BaseException) -> int:
    """Say what went wrong, and return the exit code."""
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return INTERRUPTED
    if os.environ.get("PODIUM_DEBUG"):
        traceback.print_exception(error)
    lines, code = explained(error)
    for line in lines:
        print(f"podium: {one_line(line)}", file=sys.stderr)
    return code


def explained(error: BaseException) -> tuple[list[str], int]:
    if isinstance(error, Refusal):
        return list(error.lines), error.exit_code
    if hasattr(error, "format_message"):
        return [_usage(error)], MISUSED
    # What the house raises on purpose, here or over HTTP, carries a code; anything else is a mistake.
    code = getattr(error, "code", None)
    if isinstance(code, str) and code in Code.__members__:
        # What is raised here says itself what to do; what a server says does not know who asks.
        return [_refused(Code(code), error) if hasattr(error, "trace_id") else str(error)], FAILED
    if type(error).__name__ == "ValidationError" and hasattr(error, "errors"):
        return [
            f"{_place(each)}: {each['msg']}; see podium --help" for each in error.errors()
        ], MISUSED
    return [
        f"a mistake of ours: {type(error).__name__}: {error}; "
        "report it with what the same command prints with PODIUM_DEBUG=1"
    ], FAILED


def _usage(error: BaseException) -> str:
    message = error.format_message().rstrip(".")  # type: ignore[attr-defined]
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    return f"{message}; see {context.command_path if context else 'podium'} --help"


def _place(problem: dict[str, Any]) -> str:
    return ".".join(str(part) for part in problem["loc"])


def _refused(code: Code, error: Any) -> str:
    told: str = error.message
    told = told if ";" in told else f"{told}; {NEXT.get(code, 'change it and try again')}"
    is_ours = code in (Code.INTERNAL_ERROR, Code.DATABASE_ERROR)
    return f"{told} (traceId {error.trace_id})" if error.trace_id and is_ours else told


def one_line(text: str) -> str:
    """Whatever the text came from, it is one line and moves no cursor."""
    return "".join(each if each.isprintable() else " " for each in text).strip()
