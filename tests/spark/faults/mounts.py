"""A table's folder as a small file system of its own, which can be filled up or made read-only."""

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SIZE = 4 << 20
PAGE = 4096


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A tmpfs of SIZE bytes."""

    folder: Path

    @property
    def _ballast(self) -> Path:
        return self.folder / "_ballast"

    def fill(self, free_pages: int = 0) -> None:
        """Leave so many pages free: a file takes one, and one more for its checksum."""
        with self._ballast.open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(PAGE))
            except OSError as full:
                assert full.errno == errno.ENOSPC  # noqa: PT017 - the disk is to be full
            ballast.truncate(ballast.tell() - free_pages * PAGE)

    def make_room(self) -> None:
        self._ballast.unlink()

    def forbid_writing(self) -> None:
        _mount("-o", "remount,ro", str(self.folder))

    def allow_writing(self) -> None:
        _mount("-o", "remount,rw", str(self.folder))


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Mount it at the folder; skips the test where mounting is not permitted."""
    folder.mkdir(parents=True)
    try:
        _mount("-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"mount -t tmpfs is not permitted here: {error}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
