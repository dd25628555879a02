"""What every model of the wire has in common: no field that nobody knows."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

FIELDS_MAX = 50


class Words(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, value: Any) -> Any:
        # Every unknown key is an error of its own, and a body has room for hundreds of thousands.
        if isinstance(value, dict) and len(value) > FIELDS_MAX:
            raise ValueError(f"it has {len(value)} fields; nothing here has more than {FIELDS_MAX}")
        return value
