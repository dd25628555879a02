"""Secrets: kept sealed, opened by name, and never readable by accident.

The database has the sealed values and the process has the master key; a dump of the one without the
other is noise. Each value is sealed with a key of its own, and only that small key is sealed with
the master key: so a new master key means re-wrapping some bytes per row, not decrypting the values.

    keyring.py    the master keys: what opens, and what is derived from it
    keyfile.py    where they come from: a file that only we can read, or the environment
    envelope.py   one sealed value: what is bound to what
    secret.py     an opened value, which does not print itself
    service.py    the table: put, get, delete, rotate
"""

from podium.kernel.secrets.envelope import BrokenSeal
from podium.kernel.secrets.keyfile import load_keyring
from podium.kernel.secrets.keyring import KeyMissing, Keyring
from podium.kernel.secrets.secret import Secret
from podium.kernel.secrets.service import Secrets

__all__ = ["BrokenSeal", "KeyMissing", "Keyring", "Secret", "Secrets", "load_keyring"]
