"""A local file system that counts the bytes that are read, for DuckDB."""

from collections import Counter
from typing import Any

from fsspec.implementations.local import LocalFileSystem


class CountedFile:
    """A file that adds the bytes that are read to a counter."""

    def __init__(self, file: Any, counter: Counter[str], name: str) -> None:
        self.file, self.counter, self.name = file, counter, name

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.file.read(size)
        self.counter[self.name] += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class CountingFiles(LocalFileSystem):  # type: ignore[misc]
    """The local file system with the prefix `counted://`. counter: the bytes that were read, by path."""

    protocol = "counted"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.counter: Counter[str] = Counter()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("counted://")

    def _open(self, path: str, mode: str = "rb", **options: Any) -> CountedFile:
        return CountedFile(super()._open(path, mode, **options), self.counter, path)
