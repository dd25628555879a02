"""The description of the API: for programs as OpenAPI, for people as one page without a script."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.responses import HTMLResponse, JSONResponse, Response

from podium.contracts.scopes import Scope
from podium.http.guard import Declared, get


class ReferenceApi:
    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def routes(self) -> list[Declared]:
        shown = {"include_in_schema": False}
        return [
            get(
                "/openapi.json", self.openapi, needs=Scope.READ, is_for_browsers=True, options=shown
            ),
            get("/docs", self.page, needs=Scope.READ, is_for_browsers=True, options=shown),
        ]

    async def openapi(self) -> Response:
        return JSONResponse(self._document())

    async def page(self) -> Response:
        return HTMLResponse(_page(self._document()))

    def _document(self) -> dict[str, Any]:
        document = self._app.openapi()
        document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        return document


def _page(document: dict[str, Any]) -> str:
    rows = [
        _operation(path, method, operation)
        for path, methods in sorted(document["paths"].items())
        for method, operation in methods.items()
    ]
    title = escape(document["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<link rel="stylesheet" href="/static/podium.css"><main><h1>{title} {escape(document["info"]["version"])}</h1>'
        '<p>The same as <a href="/openapi.json">/openapi.json</a>, for reading.</p>'
        "<table><thead><tr><th>call</th><th>needs</th><th>what it does</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></main></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    needs = operation.get("x-podium-needs", "")
    return (
        f"<tr><td><code>{method.upper()} {escape(path)}</code></td><td>{escape(needs)}</td>"
        f"<td>{escape(operation.get('description') or operation.get('summary') or '')}</td></tr>"
    )
