"""Handlers that come with Podium. Importing this package registers them."""

from __future__ import annotations

from podium.handlers import demo

__all__ = ["demo"]
