"""What a token may do.

| scope | allows |
|---|---|
| admin | everything, tokens and settings included |
| submit | hand in work, cancel it, replay what died |
| read | look at everything but secrets |
| worker | take work of any queue and report on it; workers trust each other |
| orchestrator | the jobs contract's internal side |
| ssh-keys | be given private keys together with a job |
"""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    ADMIN = "admin"
    SUBMIT = "submit"
    READ = "read"
    WORKER = "worker"
    ORCHESTRATOR = "orchestrator"
    SSH_KEYS = "ssh-keys"
