"""What a run predicted and measured is stored in the table."""

from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout, make_spec
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.runs import plan_and_apply

from zlayout.formats.base import Progress, Stage
from zlayout.table.samples import KeySample


def test_a_run_stores_the_forecast_of_its_sample_and_what_it_measured() -> None:
    random = np.random.default_rng(3)
    a = random.integers(0, 10**6, 40_000)
    rows = pa.table({"a": a, "b": a // 7 + random.integers(0, 2000, len(a))})
    table = MemoryTable(rows.schema)
    table.append(rows, files=20)
    backend = MemoryBackend(MemoryCatalog({"db.t": table}))
    spec = make_spec(make_layout("a", "b", target_size=rows.nbytes // 40))
    assert backend.last_run(spec.table, backend.observe(spec.table, ())) is None
    _, applied = plan_and_apply(spec, backend)
    stored = backend.last_run(spec.table, backend.observe(spec.table, ()))
    assert stored.run_id == applied.run_id
    assert applied.after is not None
    assert [c.measured for c in stored.columns] == pytest.approx([c.touched for c in applied.after.columns])
    assert {c.column: c.predicted for c in stored.columns} == applied.predictions()
    assert all(c.predicted == pytest.approx(c.measured, rel=0.1, abs=0.3) for c in stored.columns)


def test_rows_are_sampled_while_the_table_is_rewritten() -> None:
    rows = pa.table({"a": np.random.default_rng(3).permutation(4000)})
    table = MemoryTable(rows.schema)
    table.append(rows, files=8)
    backend = MemoryBackend(MemoryCatalog({"db.t": table}))
    rewriting, sample = Event(), backend.sample_keys

    def sample_late(*arguments: Any) -> KeySample:
        found = sample(*arguments)
        assert rewriting.wait(20)
        return found

    def follow(progress: Progress) -> None:
        if progress.stage is Stage.REWRITING:
            rewriting.set()

    backend.sample_keys = sample_late  # type: ignore[method-assign]
    _, applied = plan_and_apply(make_spec(make_layout("a", target_size=rows.nbytes // 8)), backend, notify=follow)
    assert applied.predictions().keys() == {"a"}
