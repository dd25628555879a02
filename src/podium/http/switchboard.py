"""Finds the route for a path without trying them all, and goes there without detours.

The framework asks each route in turn, behind three layers that turn exceptions into answers; with a
hundred routes that costs more than the request. Here routes are kept by the first two parts of their
paths, in the order of their definition, and only those that could match are asked. A guarded route
answers whatever is raised in it by itself, so it needs none of the layers. A request that fits no route
goes the framework's own way, to its 404 or 405.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from fastapi import FastAPI
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

Parts = tuple[str, str]


class Switchboard:
    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._by_parts: dict[Parts, list[BaseRoute]] = {}
        self._by_first: dict[str, list[BaseRoute]] = {}
        wanted = [(_parts(getattr(route, "path", "/{any}")), route) for route in app.router.routes]
        for parts, _ in wanted:
            self._by_parts[parts] = [r for known, r in wanted if _could_match(known, parts)]
            first = (parts[0], "{any}")
            self._by_first[parts[0]] = [r for known, r in wanted if _could_match(known, first)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for route in self._candidates(scope["path"]):
                match, child_scope = route.matches(scope)
                if match is Match.FULL:
                    scope.update(child_scope)
                    scope["app"] = self._app
                    # Where the framework keeps uploaded forms, which no route of ours takes.
                    scope["fastapi_middleware_astack"] = AsyncExitStack()
                    await route.handle(scope, receive, send)
                    return
        await self._app(scope, receive, send)

    def _candidates(self, path: str) -> Sequence[BaseRoute]:
        parts = _parts(path)
        known = self._by_parts.get(parts)
        return self._by_first.get(parts[0], ()) if known is None else known


def _parts(path: str) -> Parts:
    _, first, second, *_ = f"{path}//".split("/", 3)
    return first, second


def _could_match(route: Parts, path: Parts) -> bool:
    """`route` as it was written; a part in braces takes anything, and `{id:path}` all that follows."""
    return all(
        "{" in wanted or "{" in given or wanted == given
        for wanted, given in zip(route, path, strict=True)
    )
