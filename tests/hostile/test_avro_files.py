"""Manifests with lengths, counts and schemas that lead pyiceberg's compiled decoder out of the file, or never end."""

import io
import json
import random
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.catalog.sql import SqlCatalog
from support.projects import Cli, cli

from zlayout.errors import TableError
from zlayout.formats.iceberg.read import observe
from zlayout.formats.iceberg.read.manifests import BoundedDecoder, DataColumns, DeleteFile, entries
from zlayout.formats.iceberg.read.observe import attribute_deletes

__all__ = ["cli"]

STRING, INT, LONG = "string", "int", "long"
EMPTY = {"type": "record", "name": "e", "fields": []}
INTEGER_KEYS = {"type": "record", "name": "k", "fields": [
    {"name": "key", "type": INT, "field-id": 117}, {"name": "value", "type": LONG, "field-id": 118}]}  # fmt: skip
BYTES_BY_KEY = {"type": "record", "name": "b", "fields": [
    {"name": "key", "type": INT, "field-id": 126}, {"name": "value", "type": "bytes", "field-id": 127}]}  # fmt: skip


def number(value: int) -> bytes:
    value = (value << 1 ^ value >> 63) & 2**64 - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def manifest(kind: Any, value: bytes, *, field_id: int = 9000, codec: str = "null") -> bytes:
    """A manifest with one entry whose data file has a path, and another field with this Avro type and value."""
    path = {"name": "file_path", "type": STRING, "field-id": 100}
    fields = [{"name": "extra", "type": kind, "field-id": field_id}, path]
    file = {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": fields}, "field-id": 2}
    status = {"name": "status", "type": INT, "field-id": 0}
    schema = {"type": "record", "name": "manifest_entry", "fields": [status, file]}
    header = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    start = b"Obj\x01" + number(len(header)) + b"".join(text(k) + text(v) for k, v in header.items()) + number(0)
    block = number(1) + value + text(b"x.parquet")
    if codec == "deflate":
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        block = packer.compress(block) + packer.flush()
    return start + b"S" * 16 + number(1) + text(block) + b"S" * 16


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "element-id": 9001}


def pairs(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "logicalType": "map"}


# Avro type, value, and the field id: of the ids below 9000, the values are wanted.
HOSTILE: dict[str, tuple[Any, bytes, int]] = {
    "endless list of empty records": (array(EMPTY), number(2**40) + number(0), 9000),
    "endless list of empty values": (array({"type": "fixed", "name": "f", "size": 0}), number(2**40), 9000),
    "endless list of nulls": (array("null"), number(2**40) + number(0), 9000),
    "a block that is skipped to its own begin": (array(INT), number(-1) + number(-2), 9000),
    "a block before the file": (array(INT), number(-1) + number(-(2**40)), 9000),
    "a string before the file": (STRING, number(-(2**40)), 9000),
    "a string after the file": (STRING, number(2**32 + 2), 9000),
    "a path after the file": (STRING, number(200), 101),
    "bytes after the file": ("bytes", number(2**62), 9000),
    "a key after the file": ("bytes", number(1000), 131),
    "more numbers than bytes": (array(INT), number(2**31 - 1), 135),
    "numbers of a negative count": (array(INT), number(-5) + number(0), 135),
    "numbers that do not end": (array(INT), number(9) + b"\xff" * 9, 135),
    "more counts than bytes": (pairs(INTEGER_KEYS), number(2**30), 110),
    "more bounds than bytes": (pairs(BYTES_BY_KEY), number(2**30), 125),
    "a bound after the file": (pairs(BYTES_BY_KEY), number(1) + number(1) + number(2**30), 125),
    "a short bound after the file": (pairs(BYTES_BY_KEY), number(1) + number(1) + number(200), 125),
    "a bound of a negative length": (pairs(BYTES_BY_KEY), number(1) + number(1) + number(-200), 125),
}  # fmt: skip


class Given:
    """Files of one content."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    location = manifest_path = "x.avro"

    def new_input(self, _: str) -> "Given":
        return self

    def open(self) -> io.BytesIO:
        return io.BytesIO(self.content)


def read(content: bytes) -> list[Any]:
    given: Any = Given(content)
    return list(entries(given, given))


def test_a_manifest_that_is_valid() -> None:
    (entry,) = read(manifest(pairs(BYTES_BY_KEY), number(1) + number(7) + text(b"low") + number(0), field_id=125))
    assert [value for value in entry[4]._data if value] == ["x.parquet", {7: b"low"}]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_manifest_leads_out_of_its_bytes(name: str, tmp_path: Path) -> None:
    """In a process of its own, which would end or run forever."""
    kind, value, field_id = HOSTILE[name]
    (tmp_path / "x.avro").write_bytes(manifest(kind, value, field_id=field_id))
    code = (
        "import sys; sys.path[:0] = ['.', 'tests']\n"
        "from hostile.test_avro_files import read\n"
        "try: print(read(open(sys.argv[1], 'rb').read()))\n"
        "except (ValueError, EOFError) as error: print(repr(error))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "x.avro"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(("ValueError(", "EOFError(")), done.stdout


CALLS = (
    "read_boolean", "read_int", "read_bytes", "read_float", "read_double", "read_utf8",
    "skip_boolean", "skip_int", "skip_float", "skip_double", "skip_bytes", "skip_utf8",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_the_decoder_stays_within_its_data(seed: int) -> None:
    """Whatever the data are, each call returns what a decoder with the same bytes and many more zeros returns."""
    pick = random.Random(seed)
    for _ in range(500):
        data = bytes(
            pick.choice((0, 1, 2, 3, 8, 127, 128, 255, pick.randrange(256))) for _ in range(pick.randrange(40))
        )
        decoder, other = BoundedDecoder(data), new_decoder(data + bytes(2000))
        for _ in range(10):
            call = pick.choice((*CALLS, "read_ints", "read_int_bytes_dict", "read", "skip"))
            count = pick.choice((-1, 0, 1, 2, 5, 2**31, 2**62))
            try:
                if call == "read_int_bytes_dict":
                    found: dict[int, bytes] = {}
                    decoder.read_int_bytes_dict(count, found)
                    wanted: dict[int, bytes] = {}
                    other.read_int_bytes_dict(count, wanted)
                    assert {key % 2**64: value for key, value in found.items()} == wanted
                elif call in CALLS:
                    assert repr(getattr(decoder, call)()) == repr(getattr(other, call)())
                elif call == "read_ints":
                    assert list(decoder.read_ints(count)) == list(other.read_ints(count))
                else:
                    assert getattr(decoder, call)(count) == getattr(other, call)(count)
            except (EOFError, UnicodeDecodeError):
                break
            assert decoder.tell() == other.tell() <= len(data) + 16


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    Path("zlayout.yaml").write_text(
        'version: 1\ncatalogs:\n  ice: {format: iceberg, type: sql, uri: "sqlite:///ice.db", warehouse: ./ice}\n'
    )
    Path("layouts").mkdir()
    Path("layouts/t.yaml").write_text("version: 1\ntable: ice.db.t\nzorder: {columns: [a]}\n")
    catalog = SqlCatalog("ice", uri=f"sqlite:///{tmp_path}/ice.db", warehouse=f"file://{tmp_path}/ice")
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", pa.schema([("a", pa.int64())]))
    made.append(pa.table({"a": [1, 2, 3]}))
    yield made
    catalog.close()


@pytest.mark.parametrize("name", ["a path after the file", "endless list of nulls"])
def test_a_table_with_such_a_manifest(table: Any, cli: Cli, name: str) -> None:
    kind, value, field_id = HOSTILE[name]
    (path,) = (each.manifest_path for each in table.current_snapshot().manifests(table.io))
    Path(path.removeprefix("file://")).write_bytes(manifest(kind, value, field_id=field_id))
    assert "ZL125" in cli("plan", code=1).out


def test_a_damaged_manifest_does_not_end_the_process(table: Any) -> None:
    """Every seventh byte is inverted in turn."""
    (path,) = (each.manifest_path for each in table.current_snapshot().manifests(table.io))
    content = Path(path.removeprefix("file://")).read_bytes()
    for at in range(0, len(content), 7):
        changed = bytearray(content)
        changed[at] ^= 0xFF
        with suppress(Exception):  # `readable_metadata` converts each
            read(bytes(changed))


def big_number(document: dict[str, Any]) -> None:
    document["snapshots"][-1]["timestamp-ms"] = 10**400


def many_digits(document: dict[str, Any]) -> None:
    document["properties"]["write.metadata.metrics.default"] = f"truncate({'9' * 5000})"


@pytest.mark.parametrize("change", [big_number, many_digits])
@pytest.mark.parametrize(
    ("command", "code"),
    [(("plan",), 1), (("inspect", "ice.db.t"), 1), (("import", "ice.db.t"), 1), (("import", "ice.db.*"), 1)],
)
def test_numbers_of_metadata_that_are_too_large(
    table: Any, cli: Cli, change: Callable[[dict[str, Any]], None], command: tuple[str, ...], code: int
) -> None:
    path = Path(table.metadata_location.removeprefix("file://"))
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    Path("layouts/t.yaml").unlink() if command[0] == "import" else None
    printed = cli(*command, code=code)
    assert "ZL104" in printed.out + printed.err


def test_many_delete_files_for_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time and the memory grew with the product of both numbers."""
    data = DataColumns()
    data.path = [f"s3://b/t/data/{number}.parquet" for number in range(1000)]
    data.rows = data.size = [10] * 1000
    data.sequence = data.written = data.snapshot = [1] * 1000
    data.partition, data.partitions = [0] * 1000, {(0, ()): 0}
    data.deletes = [
        DeleteFile(f"s3://b/t/data/d{number}", 1, False, (0, ()), 2, 1, None, None, None) for number in range(1000)
    ]
    (key,) = set(attribute_deletes(data, frozenset()).key.to_pylist())
    assert len(key) == 64
    data.deletes[0] = data.deletes[0]._replace(key="other")
    assert set(attribute_deletes(data, frozenset()).key.to_pylist()).isdisjoint([key])
    monkeypatch.setattr(observe, "MAX_POSITION_PAIRS", 999_999)
    with pytest.raises(TableError, match="ZL125 the table has more than 999,999 pairs"):
        attribute_deletes(data, frozenset())
