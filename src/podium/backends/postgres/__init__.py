"""The distributed store: many processes, one PostgreSQL."""

from podium.backends.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
