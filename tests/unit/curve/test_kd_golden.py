"""The cuts of `kd` are part of the layout id's promise: equal settings give equal files. They must not change.

The digests in tests/fixtures/kd_golden.json were taken when the suite began. If a change to the algorithm is wanted,
raise `ALGORITHM_VERSION`, write an ADR, and run this file as a program to take them again.
"""

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import fields
from datetime import date, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.boxes import boxes_of, touched_of

from zlayout.curve.kd import build_kd
from zlayout.curve.layout import build
from zlayout.curve.tree import Int64, KdTree, locate, rank

FIXTURE = Path(__file__).parents[2] / "fixtures" / "kd_golden.json"
WEIGHTS = ((1.0, 1.0, 1.0, 1.0, 1.0), (4.0, 1.0, 1.0, 2.0, 1.0), (0.3, 7.0, 1.0, 1.0, 0.5))
SHAPES, COLUMNS = ("uniform", "few", "heavy", "correlated", "skewed", "nulls"), (1, 2, 3, 4, 5)
INTEGER_CASES = [f"{shape}-{columns}" for shape, columns in product(SHAPES, COLUMNS)]
FILES = (1, 2, 3, 5, 7, 16, 25, 31, 64, 100, 257, 300)


def integer_columns(shape: str, columns: int, rows: int, seed: int) -> list[np.ndarray]:
    """int64[rows] for each column: dense ordinals of one shape of data, -1 for null."""
    rng = np.random.default_rng(seed)
    first = rng.random(rows)
    made = []
    for column in range(columns):
        match shape:
            case "uniform":
                values = rng.random(rows)
            case "few":
                values = rng.integers(0, 2 + 3 * column, rows).astype(np.float64)
            case "heavy":
                values = np.where(rng.random(rows) < 0.4, 0.25, rng.random(rows))
            case "correlated":
                values = first + rng.normal(0, 0.02 * (column + 1), rows)
            case "skewed":
                values = np.floor(rng.pareto(1.1, rows) * 10)
            case _:
                values = rng.integers(0, 40, rows).astype(np.float64)
        ordinals = np.unique(values, return_inverse=True)[1].astype(np.int64)
        if shape == "nulls":
            ordinals = np.where(rng.random(rows) < 0.2 * (column + 1), -1, ordinals)
        made.append(ordinals)
    return made


def typed_columns(rows: int, seed: int) -> dict[str, pa.Array]:
    """One column of each kind of type, with nulls, NaN and both zeros."""
    rng = np.random.default_rng(seed)
    doubles = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(0, 3, rows).round(1))
    doubles = np.where(rng.random(rows) < 0.1, -0.0, np.where(rng.random(rows) < 0.1, 0.0, doubles))
    numbered = rng.integers(0, 900, rows)
    words = [f"{'common-prefix/' if n % 3 else ''}{n:x}-\u00e9\U0001f600"[: 4 + n % 25] for n in numbered]
    days = [date(2020, 1, 1) + timedelta(days=int(n)) for n in rng.integers(0, 400, rows)]
    numbers = [Decimal(int(n)).scaleb(-2) for n in rng.integers(-(10**6), 10**6, rows)]
    huge = [Decimal(int(n)) * 10**25 for n in rng.integers(-500, 500, rows)]

    def nulled(values: list[object], share: float) -> list[object]:
        return [None if r < share else v for v, r in zip(values, rng.random(rows).tolist(), strict=True)]

    return {
        "double": pa.array(nulled(doubles.tolist(), 0.1), pa.float64()),
        "string": pa.array(nulled(words, 0.05), pa.string()),
        "date": pa.array(nulled(days, 0.3), pa.date32()),
        "decimal": pa.array(nulled(numbers, 0.0), pa.decimal128(12, 2)),
        "huge": pa.array(nulled(huge, 0.1), pa.decimal128(38, 0)),
        "long": pa.array(nulled(rng.integers(-(2**62), 2**62, rows).tolist(), 0.1), pa.int64()),
        "boolean": pa.array(nulled((rng.random(rows) < 0.3).tolist(), 0.1), pa.bool_()),
        "float": pa.array(nulled(rng.normal(0, 1, rows).tolist(), 0.1), pa.float32()),
        "instant": pa.array(nulled(rng.integers(0, 10**15, rows).tolist(), 0.1), pa.timestamp("us", "UTC")),
        "binary": pa.array(nulled([w.encode() for w in words], 0.1), pa.binary()),
        "nothing": pa.nulls(rows, pa.int32()),
    }


def integer_cases(names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Name and digest of each of the named cases of a shape and a number of columns."""
    for at, (shape, columns) in enumerate(product(SHAPES, COLUMNS)):
        if f"{shape}-{columns}" in names:
            digests = []
            for number, files in enumerate(FILES):
                seed = at * len(FILES) + number + 1
                ordinals = integer_columns(shape, columns, 700 if files < 100 else 2600, seed)
                weights = WEIGHTS[number % len(WEIGHTS)][:columns]
                noise, depth = number % 2 == 0, (0, 2, 1)[number % 3]
                tree = build_kd(ordinals, weights, files, noise, depth)
                digests.append(of_tree(tree, boxes_of(tree, locate(tree, ordinals), ordinals)))
            yield f"{shape}-{columns}", hashlib.sha256("".join(digests).encode()).hexdigest()[:24]


def typed_cases() -> Iterator[tuple[str, str]]:
    """Name and digest of each case of a type and a number of rows."""
    names = list(typed_columns(1, 0))
    for rows in (0, 1, 2, 500):
        for number, name in enumerate(names):
            data = typed_columns(rows, 100 + number)
            sample = {key: data[key] for key in dict.fromkeys((name, names[number - 1], names[number - 3]))}
            built = build(sample, {name: 3.0}, "kd", 1000, 1 + 7 * number, number % 2 == 0, number % 3)
            edges = [values.to_pylist() for values in built.boundaries]
            touched = tuple(touched_of(built, sample).values())
            boxes = boxes_of(built.tree, built.leaves(sample), [rank(values).ordinals for values in sample.values()])
            shown = repr((edges, touched)).replace("<UTC>", "zoneinfo.ZoneInfo(key='UTC')")  # Arrow with pytz
            text = shown + of_tree(built.tree, boxes)
            yield f"{name}-{rows}", hashlib.sha256(text.encode()).hexdigest()[:24]


def of_tree(tree: KdTree, boxes: tuple[Int64, Int64]) -> str:
    """SHA-256 of all arrays with their names and types, and of the boxes of the files before `oversized`."""
    digest = hashlib.sha256()
    arrays = {one.name: getattr(tree, one.name) for one in fields(tree)}
    oversized = arrays.pop("oversized")
    for name, values in (arrays | dict(zip(("low", "high"), boxes, strict=True)) | {"oversized": oversized}).items():
        digest.update(f"{name} {values.dtype} {values.shape}".encode())
        digest.update(values.astype(values.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def test_the_cuts_of_each_type_are_those_that_were_recorded() -> None:
    expected = {name: digest for name, digest in json.loads(FIXTURE.read_text()).items() if name not in INTEGER_CASES}
    assert dict(typed_cases()) == expected


def matches(names: Collection[str]) -> None:
    """Assert that the cases with these names have the recorded digests."""
    recorded = json.loads(FIXTURE.read_text())
    assert dict(integer_cases(names)) == {name: recorded[name] for name in names}


def test_the_cuts_of_each_shape_and_number_of_columns_are_those_that_were_recorded() -> None:
    matches(INTEGER_CASES[::2])  # two or three numbers of columns of each shape


@pytest.mark.long
def test_the_cuts_of_all_shapes_are_those_that_were_recorded() -> None:
    matches(INTEGER_CASES)


if __name__ == "__main__":
    made = {**dict(integer_cases(INTEGER_CASES)), **dict(typed_cases())}
    FIXTURE.write_text(json.dumps(made, indent=1) + "\n")
