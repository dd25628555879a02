"""`podium token create|list|rotate|revoke`"""

from __future__ import annotations

from typing import Annotated

import typer

from podium.cli import shown
from podium.cli.calling import client, pages
from podium.contracts.access import TokenIssued
from podium.contracts.scopes import Scope

Days = Annotated[
    float | None, typer.Option("--days", help="How long it is valid. Default: access.token_days.")
]
Id = Annotated[str, typer.Argument(help="The token's id, as listed.")]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose it is or what for.")],
    scopes: Annotated[list[Scope], typer.Option("--scope", help="What it may do; repeatable.")],
    days: Days = None,
    as_json: shown.AsJson = False,
) -> None:
    """Make a token. Its text is printed here and can never be seen again."""
    with client() as server:
        _show(server.create_token(name, scopes, days=days), as_json)


@app.command("list")
def list_(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that are over or revoked.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most.")] = 100,
    as_json: shown.AsJson = False,
) -> None:
    """List tokens, without their texts. With --json one document per line."""
    with client() as server:
        found = pages(server.tokens, lambda page: page.tokens, limit, everything=everything)
        if as_json:
            shown.documents(found)
            return
        rows = [
            [it.id, it.name, it.scopes, it.created_by, it.expire_at, it.revoked_at] for it in found
        ]
    columns = ["id", "name", "scopes", "made by", "valid until", "revoked at"]
    shown.table(columns, rows, empty="there are no tokens")


@app.command()
def rotate(
    id: Id,
    days: Days = None,
    overlap_seconds: Annotated[
        float, typer.Option("--overlap-seconds", help="How long the old one stays good.")
    ] = 86_400.0,
    as_json: shown.AsJson = False,
) -> None:
    """Replace a token: a new text, and the old one for a while beside it."""
    with client() as server:
        _show(server.rotate_token(id, days=days, overlap_seconds=overlap_seconds), as_json)


@app.command()
def revoke(id: Id, as_json: shown.AsJson = False) -> None:
    """End a token, everywhere within five seconds."""
    with client() as server:
        answer = server.revoke_token(id)
    if as_json:
        shown.document(answer)
    else:
        shown.line(f"{id} is revoked")


def _show(issued: TokenIssued, as_json: bool) -> None:
    if as_json:
        shown.document(issued)
        return
    shown.facts(
        [
            ("token", issued.token),
            ("id", issued.id),
            ("scopes", issued.scopes),
            ("valid until", issued.expire_at),
        ]
    )
    shown.line("keep it like a password: it is not shown again")
