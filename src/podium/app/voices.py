"""What children say, in our log.

Each line a child writes becomes a line of our own log; what is a log line already keeps its level and
its facts. Nobody can flood it: beyond a number of lines per second they are only counted, and the
pipe is emptied no faster than costs us little, so that whoever shouts slows down only itself.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import orjson

from podium.kernel.telemetry import logger

LINES_PER_SECOND = 200
LINE_BYTES_MAX = 8 * 1024
CHUNK_BYTES = 64 * 1024
FLOOD_PAUSE_SECONDS = 0.002
"""Between two chunks of a flood: at most 32 MB/s are thrown away, for a few percent of a core."""
LEVELS = {"debug": logging.DEBUG, "warning": logging.WARNING, "error": logging.ERROR}

log = logger(__name__)


async def pass_on(stream: asyncio.StreamReader, child: str) -> None:
    """Until the stream ends."""
    lines = _Lines(child)
    while chunk := await stream.read(CHUNK_BYTES):
        if lines.take(chunk):
            await asyncio.sleep(FLOOD_PAUSE_SECONDS)
    lines.end()


class _Lines:
    def __init__(self, child: str) -> None:
        self._child = child
        self._rest = b""
        self._second = 0
        self._said = 0
        self._dropped = 0

    def take(self, chunk: bytes) -> bool:
        """Say the whole lines in it. True if there were too many."""
        self._begin_second()
        if self._said >= LINES_PER_SECOND:
            self._dropped += chunk.count(b"\n")
            self._rest = chunk[chunk.rfind(b"\n") + 1 :][:LINE_BYTES_MAX]
            return True
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if self._said < LINES_PER_SECOND:
                self._say(line)
            else:
                self._dropped += 1
        # A line without an end is cut, not collected.
        self._rest = self._rest[:LINE_BYTES_MAX]
        return self._dropped > 0

    def end(self) -> None:
        if self._rest:
            self._say(self._rest)
        self._tell_dropped()

    def _begin_second(self) -> None:
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._tell_dropped()
            self._second, self._said = second, 0

    def _tell_dropped(self) -> None:
        if self._dropped:
            log.warning("a child says too much", child=self._child, lines_dropped=self._dropped)
            self._dropped = 0

    def _say(self, line: bytes) -> None:
        if not line.strip():
            return
        self._said += 1
        said = _log_line(line)
        if said is None:
            text = line[:LINE_BYTES_MAX].decode("utf-8", "replace")
            log.info("said by a child", child=self._child, line=text)
            return
        level = LEVELS.get(str(said.pop("level", "")), logging.INFO)
        name, text = str(said.pop("logger", "podium.child")), str(said.pop("text"))
        if name.split(".")[0] != "podium":
            name = "podium.child"
        said["child"] = self._child
        logging.getLogger(name).log(level, "%s", text, extra={"facts": said})


def _log_line(line: bytes) -> dict[str, Any] | None:
    if not line.startswith(b"{") or len(line) > LINE_BYTES_MAX:
        return None
    try:
        said = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    is_ours = isinstance(said, dict) and isinstance(said.get("text"), str) and "level" in said
    return said if is_ours else None
