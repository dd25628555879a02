"""Blobs on the wire: links that fetch or put one object until a moment, and nothing else."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Words(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class NewLink(Words):
    key: Annotated[str, Field(min_length=1, max_length=1024)]
    seconds: Annotated[int, Field(ge=1, le=7 * 86_400)] = 3600


class Link(Words):
    url: str
    method: Literal["GET", "PUT"]
    expires_at: datetime


class BlobShown(Words):
    key: str
    size_bytes: int
    sha256: str
    content_type: str
    created_at: datetime
    expire_at: datetime | None


class Blobs(Words):
    blobs: list[BlobShown]
    next_cursor: str | None = None
