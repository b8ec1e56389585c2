"""Forecasts from a sample, beside what the memory format measures after the rewrite."""

from collections.abc import Mapping
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout, make_spec
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable

from zlayout.planner.model import BytesRead, ColumnForecast, FilesAfter, Plan
from zlayout.planner.partitions import Floats
from zlayout.planner.simulation import Rewrite, Simulation, simulate
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.report.text import render
from zlayout.session.plan import plan_table, plan_tables
from zlayout.session.sampling import SAMPLE_BYTES, begin_predictions, sampled
from zlayout.spec.model import LayoutSpec, TableName
from zlayout.table.samples import KeySample, NotParquetError

ROWS = 30_000
NAME = TableName("lake", ("db",), "t")
RNG = np.random.default_rng(7)
WIDE = RNG.integers(0, 10**6, ROWS)


def _skewed() -> np.ndarray:
    place = RNG.random(ROWS)
    return np.select([place < 0.2, place < 0.28, place < 0.33], [1, 2, 3], RNG.integers(4, 50_000, ROWS))


SHAPES: Mapping[str, Mapping[str, Any]] = {
    "uniform": {"a": RNG.integers(0, 10**6, ROWS), "b": WIDE},
    "correlated": {"a": WIDE // 500, "b": WIDE // 500 + RNG.integers(1, 30, ROWS)},
    "id and time": {"a": np.arange(ROWS), "b": np.arange(ROWS) // 10 + RNG.integers(0, 50, ROWS)},
    "skewed": {"a": _skewed(), "b": WIDE},
    "zipf": {"a": RNG.zipf(1.3, ROWS).clip(max=10**9), "b": WIDE},
    "three values": {"a": RNG.integers(0, 3, ROWS), "b": WIDE},
    "text": {"a": [f"name-{n}" for n in RNG.integers(0, 200, ROWS)], "b": WIDE},
    "doubles": {"a": RNG.integers(0, 50, ROWS) / 7.0, "b": WIDE},
    "nulls": {"a": pa.array(RNG.integers(0, 10**6, ROWS), mask=RNG.random(ROWS) < 0.9), "b": WIDE},
    "three keys": {"a": RNG.integers(0, 10**6, ROWS), "b": WIDE, "c": RNG.integers(0, 10**6, ROWS)},
}


class Table:
    """A memory table of random rows in 20 files, of which 40 are declared."""

    def __init__(self, columns: Mapping[str, Any], keys: tuple[str, ...] = (), **settings: Any) -> None:
        rows = pa.table({name: pa.array(values) for name, values in columns.items()})
        self.memory = MemoryTable(rows.schema)
        self.memory.append(rows, files=20)
        self.backend = MemoryBackend(MemoryCatalog({"db.t": self.memory}))
        layout = make_layout(*(keys or columns), target_size=rows.nbytes // 40)
        self.spec: LayoutSpec = make_spec(layout, NAME, **settings)

    def plan(self) -> PlannedTable:
        return plan_table(self.spec, self.backend, PlanOptions())

    def sampled(self, planned: PlannedTable, max_bytes: int = SAMPLE_BYTES) -> PlannedTable:
        return sampled(planned, self.backend, max_bytes)

    def apply(self, planned: PlannedTable) -> tuple[ColumnForecast, ...]:
        list(self.backend.execute(replace(planned, run_id="run"), lambda _: None))
        return self.plan().plan.columns


def _bytes_are_as_predicted(before: BytesRead, then: BytesRead, now: BytesRead, file: int) -> None:
    """Compare the range from metadata and the prediction with what is measured. file: the size of a file."""
    assert before.low is not None
    assert before.high is not None
    assert 0.95 * before.low <= now.now <= 1.05 * before.high
    assert then.predicted == pytest.approx(now.now, rel=0.1, abs=0.3 * file)


@pytest.mark.parametrize("shape", SHAPES)
def test_predicted_is_measured_afterwards_for_every_shape(shape: str) -> None:
    table = Table(SHAPES[shape])
    planned = table.plan()
    forecast = table.sampled(planned).plan
    measured = table.apply(planned)
    for before, then, now in zip(planned.plan.columns, forecast.columns, measured, strict=True):
        assert then.predicted == pytest.approx(now.touched, rel=0.1, abs=0.3)
        assert before.predicted is None
        assert before.low is not None
        assert before.high is not None
        _bytes_are_as_predicted(before.bytes_read, then.bytes_read, now.bytes_read, table.spec.layout.target_size)
        assert before.low <= now.touched <= before.high + 1e-9
        assert then.floor is not None
        assert then.floor <= now.touched + 1e-9
    assert forecast.files_after.predicted == table.plan().plan.files


def test_part_of_the_row_groups_gives_a_wider_range() -> None:
    table = Table(SHAPES["skewed"])
    planned = table.plan()
    part, whole = (table.sampled(planned, size).plan for size in (200_000, SAMPLE_BYTES))
    assert part.sample.row_groups < 20 == whole.sample.row_groups
    for few, all_rows in zip(part.columns, whole.columns, strict=True):
        assert few.low is not None
        assert few.high is not None
        assert few.low <= (all_rows.predicted or 0) <= few.high
        assert few.high - few.low > 0.2 * (few.predicted or 0)


@pytest.mark.parametrize(
    ("shape", "max_bytes"),
    [
        ("ordered", 60_000),
        ("ordered", 150_000),
        ("one value per file", 150_000),
        ("opposite", 60_000),
        ("opposite", 150_000),
    ],
)
def test_a_few_row_groups_of_files_that_differ_promise_little(shape: str, max_bytes: int) -> None:
    number, random = np.arange(ROWS), np.random.default_rng(11)
    columns = {
        "ordered": {"a": number, "b": number // 10 + random.integers(0, 50, ROWS)},
        "one value per file": {"a": number // 1500, "b": WIDE},
        "opposite": {"a": WIDE, "b": 10**6 - WIDE},
    }
    table = Table(columns[shape])
    planned = table.plan()
    forecast = table.sampled(planned, max_bytes).plan
    assert forecast.sample.row_groups < 10
    for then, now in zip(forecast.columns, table.apply(planned), strict=True):
        assert then.low <= now.touched + 1e-9
        assert then.high >= now.touched - 1e-9
        assert then.floor <= now.touched + 1e-9


def test_values_that_fill_the_few_sampled_row_groups_do_not_raise_the_floor() -> None:
    table = Table({"a": np.arange(ROWS) // 1500, "b": WIDE})
    planned = table.plan()
    forecast = table.sampled(planned, 60_000).plan
    assert forecast.sample.row_groups < 5
    assert forecast.columns[0].floor <= table.apply(planned)[0].touched + 1e-9


def test_the_result_of_engine_native_is_predicted_less_exactly() -> None:
    table = Table({"a": SHAPES["zipf"]["a"], "c": WIDE}, keys=("a",))
    found = []
    for engine in ("zlayout", "native"):
        table.spec = replace(table.spec, layout=replace(table.spec.layout, curve="linear", engine=engine))
        found.append(table.sampled(table.plan()).plan)
    own, native = found
    # Files of zlayout end between two values, so that a frequent value has one file. The format decides differently.
    assert own.files_after.predicted < 30
    assert native.files_after == FilesAfter(None, None, None)
    assert "20 -> ~40 files" in render(Plan("0", (native,)))
    (column,) = native.columns
    assert (column.predicted, column.low, column.high) == pytest.approx((1, column.floor, 1.25))


def test_a_few_row_groups_promise_as_little_of_engine_native() -> None:
    table = Table(SHAPES["uniform"], keys=("a",))
    ratios = []
    for engine in ("zlayout", "native"):
        table.spec = replace(table.spec, layout=replace(table.spec.layout, curve="linear", engine=engine))
        forecast = table.sampled(table.plan(), 30_000).plan
        assert forecast.sample.row_groups < 5
        size = forecast.columns[0].bytes_read
        ratios.append(np.inf if size.high is None else size.high / size.predicted)
    assert ratios[1] >= ratios[0] > 1.25


def test_the_error_includes_how_much_simulations_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    def differing(rewrite: Rewrite, weights: Floats, draw: int = 0, *, with_floor: bool = False) -> Simulation:
        found = simulate(rewrite, weights, draw, with_floor=with_floor)
        return replace(found, touched=np.full(2, 4.0 + draw))

    monkeypatch.setattr("zlayout.planner.sampled.simulate", differing)
    table = Table(SHAPES["uniform"])
    column, _ = table.sampled(table.plan()).plan.columns
    # By hand: the standard deviation of 4, 5 and 6 is the square root of 2 / 3. All rows are in the sample.
    assert column.predicted == 5
    assert (column.low, column.high) == pytest.approx((5 - 2 * (2 / 3) ** 0.5, 5 + 2 * (2 / 3) ** 0.5))


def test_deleted_rows_count_by_the_share_of_live_rows() -> None:
    table = Table({"a": np.arange(ROWS), "b": WIDE})
    table.memory.delete(pa.compute.field("a") < ROWS // 2)
    planned = table.plan()
    forecast = table.sampled(planned).plan
    measured = table.apply(planned)
    assert forecast.files_after.predicted == table.plan().plan.files == 20
    for then, now in zip(forecast.columns, measured, strict=True):
        assert then.predicted == pytest.approx(now.touched, rel=0.1, abs=0.3)


def test_a_failure_to_sample_is_a_warning() -> None:
    table = Table(SHAPES["uniform"])
    planned = table.plan()

    def fail(*_: object) -> KeySample:
        raise OSError("no access")

    table.backend.sample_keys = fail  # type: ignore[method-assign]
    decision = table.sampled(planned)
    assert [d.code for d in decision.plan.diagnostics] == ["ZL410"]
    assert "OSError: no access" in decision.plan.diagnostics[0].message
    assert decision.plan.columns == planned.plan.columns
    assert decision.pinned == planned.pinned


def test_files_without_row_groups_are_a_warning_that_asks_for_nothing() -> None:
    table = Table(SHAPES["uniform"])
    planned = table.plan()

    def fail(*_: object) -> KeySample:
        raise NotParquetError("ORC")

    table.backend.sample_keys = fail  # type: ignore[method-assign]
    (warning,) = table.sampled(planned).plan.diagnostics
    assert (warning.code, warning.hint.split(";")[0]) == ("ZL410", "nothing to do")
    assert "only Parquet files can be sampled, found ORC files" in warning.message


def test_nothing_to_rewrite_needs_no_sample() -> None:
    table = Table(SHAPES["uniform"])
    table.apply(table.plan())
    planned = table.plan()
    assert table.sampled(planned) is planned
    assert table.sampled(Table(SHAPES["uniform"]).plan(), 0).plan.sample is None


def test_partition_by_counts_the_files_of_every_partition() -> None:
    table = Table({"a": WIDE, "region": np.random.default_rng(11).integers(0, 8, ROWS)}, ("a",))
    table.spec = replace(table.spec, partition_by=(table.memory.current.fields or _fields("region")))
    planned = table.plan()
    forecast = table.sampled(planned).plan
    assert planned.plan.files_after.predicted is None
    measured = table.apply(planned)
    assert forecast.files_after.predicted == table.plan().plan.files == 40
    assert forecast.columns[0].predicted == pytest.approx(measured[0].touched, abs=0.3)
    assert [d.code for d in forecast.diagnostics if d.code == "ZL412"] == []
    assert forecast.columns[0].floor == pytest.approx(8)  # one file in each of the eight partitions


@pytest.mark.parametrize("names", [("region",), ("region", "half")])
def test_rows_without_a_partition_value_have_a_partition_of_their_own(names: tuple[str, ...]) -> None:
    random = np.random.default_rng(2)
    region, half = (pa.array(v, mask=v == 0) for v in (random.integers(0, 4, ROWS), random.integers(0, 2, ROWS)))
    table = Table({"a": WIDE, "region": region, "half": half}, ("a",), partition_by=_fields(*names))
    planned = table.plan()
    forecast = table.sampled(planned).plan
    measured = table.apply(planned)
    assert forecast.files_after.predicted == table.plan().plan.files
    assert forecast.columns[0].floor == pytest.approx(4 ** len(names) / len(names))
    assert forecast.columns[0].predicted == pytest.approx(measured[0].touched, abs=0.3)


def test_the_floor_after_a_partitioning_change_counts_heavy_values_in_each_partition() -> None:
    # 40 files, half of the rows in region 0. Half of the rows of each region have the value 5.
    random = np.random.default_rng(11)  # a module's generator would make the rows depend on the order of the tests
    region = np.where(random.random(ROWS) < 0.5, 0, random.integers(1, 5, ROWS))
    heavy = np.where(random.random(ROWS) < 0.5, 5, random.integers(10, 10**6, ROWS))
    table = Table({"a": heavy, "region": region}, ("a",), partition_by=_fields("region"))
    layout = replace(table.spec.layout, noise=True)
    table.spec = replace(table.spec, layout=layout)
    planned = table.plan()
    floor, of_part = (table.sampled(planned, size).plan.columns[0].floor for size in (SAMPLE_BYTES, 200_000))
    measured = table.apply(planned)[0]
    # 20 files, and four times 5, each perhaps one less: the sum of 1 + 1/2 * (1/2 * files - 1), by files of one size
    assert floor is not None
    assert 0.9 * (5.25 + 4 * 1.5) <= floor <= measured.touched
    assert of_part is not None
    assert 5 <= of_part <= measured.touched


def test_a_new_partition_whose_rows_may_all_be_deleted_has_no_floor() -> None:
    table = Table(
        {"a": WIDE, "region": np.random.default_rng(11).integers(0, 8, ROWS)}, ("a",), partition_by=_fields("region")
    )
    table.memory.delete(pa.compute.field("region") == 3)
    planned = table.plan()
    forecast = table.sampled(planned).plan
    measured = table.apply(planned)
    assert forecast.columns[0].floor == 0  # deletes are in every file
    assert measured[0].touched == pytest.approx(7)


def test_partitions_smaller_than_half_of_the_target_are_a_warning() -> None:
    table = Table({"a": WIDE, "region": np.random.default_rng(11).integers(0, 120, ROWS)}, ("a",))
    table.spec = replace(table.spec, partition_by=_fields("region"))
    planned = table.plan()
    forecast = table.sampled(planned).plan
    assert [d.code for d in forecast.diagnostics if d.severity == "warning"] == ["ZL412"]
    assert "about 120 partitions" in forecast.diagnostics[-1].message
    table.apply(planned)
    assert forecast.files_after.predicted == table.plan().plan.files == 120


def _fields(*names: str) -> tuple[Any, ...]:
    from zlayout.table.state import PartitionField

    return tuple(PartitionField(name) for name in names)


def test_predictions_do_not_wait_for_files_that_do_not_answer() -> None:
    table = Table(SHAPES["uniform"])
    planned = table.plan()

    def wait(*_: object) -> KeySample:
        Event().wait(2)
        raise OSError("late")

    table.backend.sample_keys = wait  # type: ignore[method-assign]
    begun = begin_predictions(planned, table.backend, timeout=0.05)
    assert begun() == {}


def test_predictions_survive_a_panic_of_the_reader() -> None:
    """The rows are rewritten when somebody asks for the predictions, so that an exception would waste the rewrite."""

    class PanicException(BaseException):
        pass

    table = Table(SHAPES["uniform"])
    planned = table.plan()

    def panic(*_: object) -> KeySample:
        raise PanicException

    table.backend.sample_keys = panic  # type: ignore[method-assign]
    assert begin_predictions(planned, table.backend)() == {}


def test_a_plan_of_many_tables_is_sampled_as_one() -> None:
    table = Table(SHAPES["skewed"])
    planned = table.plan()
    options = PlanOptions(sample_bytes=SAMPLE_BYTES)
    (together,) = plan_tables([table.spec], {"lake": table.backend}, options)
    assert together.plan.columns == table.sampled(planned).plan.columns
    assert together.plan.sample is not None
