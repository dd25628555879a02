"""One trivial JSON route, twice: on bare FastAPI, and in our house with a token, limits and all.

    python -m bench.route_server bare|podium FOLDER

Prints the port, and for the house the token, then serves until it is ended.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvicorn
import uvloop
from fastapi import FastAPI
from pydantic import BaseModel

from podium.app.local import TOKEN_FILE, keep_admin_token, make_data_dir
from podium.app.parts import HttpPart, ReadinessPart, StorePart, listen
from podium.app.settings import Settings
from podium.app.wiring import engine, house, wire
from podium.contracts.scopes import Scope
from podium.engine import Part, Supervisor
from podium.http.app import create_app
from podium.http.guard import post

PATH = "/bench/greeting"


class Asked(BaseModel):
    name: str
    count: int
    tags: list[str]


class Said(BaseModel):
    greeting: str
    count: int


async def greet(body: Asked) -> Said:
    return Said(greeting=f"hello {body.name}", count=body.count + len(body.tags))


async def bare(folder: Path) -> None:
    app = FastAPI(openapi_url=None)
    app.post(PATH)(greet)
    listener = listen(Settings(port=0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, http="httptools", log_config=None, access_log=False)
    await uvicorn.Server(config).serve([listener])


async def podium(folder: Path) -> None:
    settings = Settings.model_validate(
        {
            "data_dir": str(folder),
            "port": 0,
            # The bench asks more often in a minute than a caller may.
            "access": {"requests_max": 100_000_000},
        }
    )
    make_data_dir(settings.data_path)
    listener = listen(settings)
    services = wire(settings)
    # It changes nothing, so that the audit log does not take part.
    route = post(PATH, greet, needs=Scope.SUBMIT, mutates=False)
    parts: list[Part] = [
        StorePart(services, migrates=True),
        *engine(services),
        HttpPart(
            lambda: create_app(house(services), [route]), settings, listener, services.metrics
        ),
        ReadinessPart(services.readiness),
    ]
    async with Supervisor(parts):
        await keep_admin_token(folder, services.store, services.access.tokens)
        token = (folder / TOKEN_FILE).read_text().strip()
        print(listener.getsockname()[1], token, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    kind, folder = sys.argv[1:]
    uvloop.run({"bare": bare, "podium": podium}[kind](Path(folder)))
