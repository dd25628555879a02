"""The start page: what waits, what runs, what died, what happened last.

Every text on it comes from somebody else and is escaped. No script is needed to read it; with one, it
is drawn anew when the journal grows.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from podium.contracts.scopes import Scope
from podium.domains.access.service import refuse_without
from podium.http.guard import Declared, Gate, Open, get
from podium.http.house import House
from podium.kernel import journal
from podium.kernel.errors import NotFound, PodiumError
from podium.kernel.journal import Line

STATIC = Path(__file__).parent / "static"
STATES = ("ready", "scheduled", "offered", "leased", "running", "dead")
LINES_SHOWN = 20
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
PUBLIC = Open("it says how to sign in, and shows more to who has")


class Pages:
    def __init__(self, house: House, gate: Gate) -> None:
        self._house = house
        self._gate = gate
        self._files = {
            path.name: (path.read_bytes(), TYPES[path.suffix]) for path in STATIC.iterdir()
        }

    def routes(self) -> list[Declared]:
        hidden = {"include_in_schema": False}
        return [
            get("/", self.start, needs=PUBLIC, options=hidden),
            get(
                "/static/{name}",
                self.static,
                needs=Open("a style sheet is no secret"),
                options=hidden,
            ),
        ]

    async def start(self, request: Request) -> Response:
        try:
            caller = await self._gate.identify(request, with_cookie=True)
            refuse_without(caller, Scope.READ)
        except PodiumError:
            return HTMLResponse(_page("Sign in", SIGN_IN))
        counts = await self._house.store.read_long(self._house.work.counts)
        lines = await self._house.store.read_long(journal.newest, LINES_SHOWN)
        return HTMLResponse(_page("Podium", f"{_queues(counts)}{_journal(lines)}", is_live=True))

    async def static(self, name: str) -> Response:
        try:
            body, media_type = self._files[name]
        except KeyError:
            raise NotFound("there is nothing at this address") from None
        return Response(body, 200, {"cache-control": "max-age=300"}, media_type)


SIGN_IN = """
<h1>Sign in</h1>
<p>On the machine where Podium runs, ask for a link that signs this browser in:</p>
<pre>podium login</pre>
<p>It works once, for ten minutes.</p>
"""


def _page(title: str, body: str, *, is_live: bool = False) -> str:
    script = '<script type="module" src="/static/podium.js"></script>' if is_live else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
        f'<link rel="stylesheet" href="/static/podium.css">{script}</head>'
        f'<body><header><a href="/">Podium</a><nav><a href="/docs">API</a></nav></header>'
        f"<main>{body}</main></body></html>"
    )


def _queues(counts: dict[tuple[str, str], int]) -> str:
    names = sorted({queue for queue, _ in counts})
    rows = [[name, *(str(counts.get((name, state), "")) for state in STATES)] for name in names]
    return "<h1>Queues</h1>" + (
        _table(["queue", *STATES], rows) if rows else "<p>Nothing waits, runs or has died.</p>"
    )


def _journal(lines: list[Line]) -> str:
    rows = [
        [
            line.happened_at.strftime("%Y-%m-%d %H:%M:%S"),
            line.kind,
            line.aggregate_id,
            line.event,
            line.reason or "",
        ]
        for line in lines
    ]
    return "<h2>What happened last</h2>" + (
        _table(["at (UTC)", "kind", "id", "event", "reason"], rows)
        if rows
        else "<p>Nothing yet.</p>"
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
