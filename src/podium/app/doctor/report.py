"""What a check found: a level, a sentence, and the command that mends it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    check: str
    level: Level
    text: str
    mend: str = ""
    """The command, or the setting, that mends it. Empty when there is nothing to mend."""


def ok(check: str, text: str) -> Finding:
    return Finding(check, Level.OK, text)


def warn(check: str, text: str, mend: str) -> Finding:
    return Finding(check, Level.WARN, text, mend)


def fail(check: str, text: str, mend: str) -> Finding:
    return Finding(check, Level.FAIL, text, mend)
