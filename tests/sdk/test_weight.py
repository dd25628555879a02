"""What importing the SDK costs: a module of handlers is imported by everybody who looks at it."""

from __future__ import annotations

import subprocess
import sys

LOOK = "import sys; import podium.sdk; print(*sorted(m for m in {m} if m in sys.modules))"


def test_writing_a_handler_loads_neither_models_nor_http() -> None:
    heavy = ["pydantic", "httpx", "orjson", "asyncio", "ssl"]
    code = LOOK.replace("{m}", repr(heavy))
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == []


def test_everything_that_is_offered_is_there() -> None:
    code = "import podium.sdk as s; print(*[n for n in s.__all__ if getattr(s, n) is None])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == ""
