"""Settings and wiring: the one place where "SQLite or PostgreSQL?" is asked. Only the front door knows it."""
