"""After Spark's own maintenance rewrote the files of a layout, the plan names it."""

from contract import Contract, make_rows
from spark.arenas import SparkArena

ROWS = make_rows(2000)


class SmallContract(Contract):
    rows = len(ROWS)
    files = 8
    __test__ = False


def compact(arena: SparkArena, by: str) -> None:
    if arena.format == "delta":
        arena.sql(f"OPTIMIZE {arena} ZORDER BY ({by})")
        return
    name = ".".join(arena.table.identifier)
    arena.sql(
        f"CALL ice.system.rewrite_data_files(table => '{name}', strategy => 'sort', sort_order => '{by}', "
        "options => map('rewrite-all', 'true'))"
    )


def test_spark_s_own_rewrite_is_named_and_zlayout_s_is_not(arena: SparkArena) -> None:
    contract = SmallContract()
    arena.create(ROWS, 8)
    compact(arena, "a")
    spec = contract.spec(arena)
    first = contract.plan(arena, spec)
    assert first.state.rewrites == ()  # zlayout has not rewritten the table yet
    contract.apply(arena, first)
    left = arena.backend.observe(arena.table, spec.column_names)
    assert (left.rewrites, left.ordering) == ((), None)

    compact(arena, "id")
    after = contract.plan(arena, spec)
    (rewrite,) = after.state.rewrites
    assert rewrite.version == after.state.version
    assert rewrite.time is not None
    expected = "OPTIMIZE ZORDER BY (id)" if arena.format == "delta" else "replace (a rewrite of data files)"
    assert rewrite.operation == expected
    assert "spark" in rewrite.engine.lower()
    (note,) = (d for d in after.plan.diagnostics if d.code == "ZL431")
    assert note.message.startswith(
        f"since the last rewrite by zlayout, files were rewritten by {expected} at version {rewrite.version} ("
    )
    contract.apply(arena, after)
    assert contract.plan(arena, spec).plan.status == "unchanged"
