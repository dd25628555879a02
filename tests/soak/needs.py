"""What a part needs of the machine, checked before it begins, and said so that it can be mended."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


class Missing(RuntimeError):
    """The machine lacks something; the message says what and what to do."""


def need_root(why: str) -> None:
    if os.geteuid() != 0:
        raise Missing(f"{why} needs root: run scripts/soak as root")


def need_program(name: str, package: str) -> None:
    if shutil.which(name) is None:
        raise Missing(f"{name} is missing: apt-get install {package}")


def need_loop_devices() -> None:
    if not Path("/dev/loop-control").exists():
        raise Missing(
            "/dev/loop-control is missing: modprobe loop, or give the container its devices"
        )


def need_proc_ptrace() -> None:
    setting = Path("/proc/sys/kernel/yama/ptrace_scope")
    if setting.exists() and setting.read_text().strip() == "3":
        raise Missing(
            f"attaching to processes is forbidden for good ({setting} is 3): reboot with less"
        )
