"""The tether: a child that does not outlive its parent, not even by kill -9.

Two walls. On Linux the kernel itself ends us when the parent dies. Everywhere the channel's other end
closes with the parent, and a thread of ours waits for nothing else, so that it notices even while a
handler keeps the event loop busy; it ends the whole group, and with it what handlers have started.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping

from podium.sdk.channel import PARENT_VARIABLE

PR_SET_PDEATHSIG = 1
ORPHANED = 3
"""The exit code of a child that found its parent gone before it had begun."""


def hold_on_to_parent(channel_fd: int, environment: Mapping[str, str] = os.environ) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The kernel tells only of deaths after we asked; an earlier one shows in who our parent is now.
    parent = environment.get(PARENT_VARIABLE)
    if parent is not None and os.getppid() != int(parent):
        os._exit(ORPHANED)
    threading.Thread(
        target=_end_with_channel, args=(channel_fd,), name="tether", daemon=True
    ).start()


def _end_with_channel(fd: int) -> None:
    poll = select.poll()
    # No events asked for: only that the other end hung up is reported, and nothing is read.
    poll.register(fd, 0)
    poll.poll()
    end_group()


def end_group() -> None:
    """End this process and, if it leads a group, everybody in it."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(ORPHANED)
