"""Podium: one durable orchestrator that speaks five contracts."""

__version__ = "0.1.0"
