"""The first ten minutes, done as the page says: every shell block, in order, in one shell."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from podium.testing.servers import free_port

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "start.md"
BLOCK = re.compile(r"(?P<stays><!-- keeps running -->\n)?```sh\n(?P<text>.*?)```", re.S)
SECONDS_MAX = 170

WAIT = """
for _ in $(seq 240); do
    curl -sf "$(cat podium-data/url 2>/dev/null)/readyz" >/dev/null 2>&1 && break
    sleep 0.25
done
"""


def script() -> str:
    """The page as one shell script. What keeps running is a second terminal."""
    parts = ["set -eu"]
    for number, block in enumerate(BLOCK.finditer(PAGE.read_text()), 1):
        parts.append(f"echo '### block {number}' >&2")
        parts.append(f"{{ {block['text']} }} &\n{WAIT}" if block["stays"] else block["text"])
    return "\n".join(parts)


@pytest.mark.timeout(SECONDS_MAX + 20)
def test_every_shell_block_of_the_first_ten_minutes_works(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PODIUM_")}
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    with subprocess.Popen(
        ["bash", "-c", script()],
        cwd=ROOT,
        env={**kept, "PATH": path, "TMPDIR": str(tmp_path), "PODIUM_PORT": str(free_port())},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # What keeps running is ended with the shell that started it.
        start_new_session=True,
    ) as shell:
        try:
            # Not `communicate`: it would wait for what keeps running and holds the same pipe.
            code = shell.wait(SECONDS_MAX)
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
        assert shell.stdout is not None
        said = shell.stdout.read()
    assert code == 0, said
    assert '["hello-2", "hello-3"]'.replace('"', "'") in said
    assert "Hello, Ada!" in said
    assert "there is nobody to greet" in said
    assert "1 put back" in said
