"""What must not be read is struck out before a text leaves the process: see `redactor.py`."""

from podium.kernel.redactor.redactor import REDACTOR, Redactor
from podium.kernel.redactor.shapes import MASK

__all__ = ["MASK", "REDACTOR", "Redactor"]
