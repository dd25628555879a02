"""Disks that can lose power, and disks that can be full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.soak.needs import Missing, need_loop_devices, need_program, need_root


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        words = " ".join(str(word) for word in command)
        raise Missing(f"`{words}` failed with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class CuttableDisk:
    """ext4 in a file, mounted through a loop device.

    What a program wrote and did not sync is only in the page cache of the mounted filesystem, not
    in the file beneath. So a power cut is: kill everybody, copy the file, mount the copy. The
    long commit interval keeps the filesystem from syncing by itself in between.
    """

    def __init__(self, folder: Path, size_mib: int) -> None:
        self._folder = folder
        self._size_mib = size_mib
        self._generation = 0
        self._mounted: list[Path] = []

    @staticmethod
    def check_needs() -> None:
        need_root("mounting a disk image")
        need_program("mkfs.ext4", "e2fsprogs")
        need_program("mount", "mount")
        need_loop_devices()

    @property
    def path(self) -> Path:
        """Where it is mounted now."""
        return self._folder / f"mount-{self._generation}"

    @property
    def _image(self) -> Path:
        return self._folder / f"image-{self._generation}"

    def make(self) -> None:
        run("truncate", "-s", f"{self._size_mib}M", self._image)
        run("mkfs.ext4", "-q", "-F", self._image)
        self._mount()

    def sync(self) -> None:
        run("sync", "-f", self.path)

    def cut(self) -> None:
        """Every process on it must be dead. Afterwards `path` is what the disk itself had."""
        old_image, old_path = self._image, self.path
        self._generation += 1
        run("cp", "--sparse=always", old_image, self._image)
        self._unmount(old_path)
        old_image.unlink()
        self._mount()

    def close(self) -> None:
        for path in list(self._mounted):
            self._unmount(path)

    def _mount(self) -> None:
        self.path.mkdir()
        run("mount", "-o", "loop,commit=600", self._image, self.path)
        self._mounted.append(self.path)
        self.path.chmod(0o755)
        self.sync()

    def _unmount(self, path: Path) -> None:
        run("umount", path)
        self._mounted.remove(path)


@contextmanager
def cuttable_disk(folder: Path, size_mib: int) -> Iterator[CuttableDisk]:
    disk = CuttableDisk(folder, size_mib)
    try:
        disk.make()
        yield disk
    finally:
        disk.close()


class SmallDisk:
    """A tmpfs that can be filled up and enlarged under the programs that use it."""

    def __init__(self, path: Path, size_mib: int) -> None:
        self.path = path
        self._ballast = path / "ballast"
        path.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=755", "podium-soak", path)

    @staticmethod
    def check_needs() -> None:
        need_root("mounting a small disk")
        need_program("mount", "mount")

    def fill(self) -> None:
        """Take all the space there is left."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def enlarge(self, size_mib: int) -> None:
        run("mount", "-o", f"remount,size={size_mib}m", self.path)

    def close(self) -> None:
        run("umount", self.path)


@contextmanager
def small_disk(path: Path, size_mib: int) -> Iterator[SmallDisk]:
    disk = SmallDisk(path, size_mib)
    try:
        yield disk
    finally:
        disk.close()
