"""Column names of a spec in another letter case than the table's."""

import pyarrow as pa
from support.builders import make_file_table, make_layout, make_spec, make_state
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.runs import plan_and_apply

from zlayout.errors import Location
from zlayout.predicate.model import Compare
from zlayout.predicate.parse import parse_where
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import check, in_case_of
from zlayout.table.partition import PartitionField
from zlayout.table.state import Column, TableState


def table(*names: str) -> TableState:
    return make_state(make_file_table([]), columns=tuple(Column(name, pa.int64(), True) for name in names))


def test_every_name_of_a_spec_is_written_as_in_the_table() -> None:
    where = parse_where("REGION = 1 and Day > 2", Location("f"))
    spec = make_spec(make_layout("id", "TS.X"), where=where, partition_by=(PartitionField("rEGION", "bucket[4]"),))
    found = in_case_of(spec, table("Id", "ts.x", "region", "Day", "other"))
    assert found.column_names == ("Id", "ts.x")
    assert found.partition_by == (PartitionField("region", "bucket[4]"),)
    assert found.where == parse_where("region = 1 and Day > 2", Location("f"))
    assert found.layout.layout_id == make_layout("Id", "ts.x").layout_id
    cut = make_spec(make_layout("id", curve="workload", cuts=(Compare("iD", "<", 5),)))
    assert in_case_of(cut, table("Id")).layout.cuts == (Compare("Id", "<", 5),)


def test_names_that_the_table_has_or_that_are_ambiguous_are_kept() -> None:
    spec = make_spec(make_layout("id", "name"))
    assert in_case_of(spec, table("ID", "id", "Name", "NAME")) == spec
    assert in_case_of(make_spec(make_layout("a", "A")), table("a")).column_names == ("a", "A")


def test_two_names_of_one_column_are_a_duplicate() -> None:
    """A table may have two columns whose names differ only in letter case, so that only its columns show this."""
    columns, fields = (
        make_layout("a", "A"),
        (PartitionField("b"), PartitionField("B"), PartitionField("b", "bucket[4]")),
    )
    spec = make_spec(columns, partition_by=fields)
    of_one, of_two = table("a", "b"), table("a", "A", "b", "B")
    assert in_case_of(spec, of_one) == spec
    found = [(d.code, d.message) for d in check(spec, of_one)]
    assert found == [
        ("ZL023", "duplicate partition key 'B' in partition_by"),
        ("ZL016", "duplicate column 'A' in zorder.columns"),
    ]
    assert [d.code for d in check(spec, of_two)] == []
    assert [d.code for d in check(spec, table("b"))] == ["ZL023", "ZL012", "ZL012"]


def test_other_names_beside_a_duplicate_are_known() -> None:
    where, of_one = parse_where("P = 1", Location("f")), table("id", "b", "p")
    first = make_spec(make_layout("ID"), partition_by=(PartitionField("P"), PartitionField("p")))
    second = make_spec(make_layout("ID", "Id", "id", "B"), where=where, partition_by=(PartitionField("P"),))

    def problems(spec: LayoutSpec) -> list[tuple[str, str]]:
        return [(d.code, d.message) for d in check(in_case_of(spec, of_one), of_one) if d.severity == "error"]

    assert problems(first) == [("ZL023", "duplicate partition key 'p' in partition_by")]
    # The table is not partitioned yet, so that `where` has no column to refer to.
    assert problems(second) == [
        ("ZL016", "duplicate column 'Id' in zorder.columns"),
        ("ZL016", "duplicate column 'id' in zorder.columns"),
        ("ZL033", "expected partition columns in where, found 'p'"),
    ]


def test_a_table_is_laid_out_by_a_spec_in_another_letter_case() -> None:
    rows = pa.table({"Id": list(range(2000)), "b": [n * 7919 % 2000 for n in range(2000)]})
    stored = MemoryTable(rows.schema)
    stored.append(rows, files=8)
    backend = MemoryBackend(MemoryCatalog({"db.t": stored}))
    spec = make_spec(make_layout("iD", "B", target_size=rows.nbytes // 8))
    _, applied = plan_and_apply(spec, backend)
    assert applied.exit_code == 0
    assert [column.column for column in applied.after.columns] == ["Id", "b"]
    assert applied.after.as_declared
