"""What a service manager does: a server that does not answer any more is started again."""

from __future__ import annotations

import psycopg

from podium.testing.servers import Postgres


def revive(server: Postgres) -> bool:
    """True when it had to be started again. The data and the port stay the same."""
    if server.is_running and _answers(server):
        return False
    server.kill()
    server.start()
    return True


def _answers(server: Postgres) -> bool:
    try:
        psycopg.connect(server.url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True
