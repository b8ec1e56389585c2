"""When truncated bounds are too short, and what the planner does then. Bounds are truncated as the writers do it."""

import hashlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from unit.planner.plans import DELTA, LAYOUT, SPEC, TARGET, File, state

from zlayout.planner.bounds import examine, indistinct_partitions, with_values
from zlayout.planner.diff import PlannedTable, assemble, choose_saved, decide, propose, settle
from zlayout.planner.model import PropertyReason, Reason, Wait
from zlayout.planner.proposal import Proposal
from zlayout.planner.work import PlanOptions
from zlayout.report.words import property_reason
from zlayout.spec.model import ZorderColumn
from zlayout.table.state import Column, ColumnBounds, TableState, null_values

LONGER = (("prefix", "256"),)
URLS = [f"https://www.example.com/products/by-category/gardening/item-{n:06}" for n in range(8000)]
HASHES = sorted(hashlib.sha1(str(n).encode()).hexdigest() for n in range(8000))


def iceberg_cut(low: str, high: str, at: int) -> tuple[str, str, bool]:
    """As truncate(at) keeps them: the last character of a cut maximum goes up by one."""
    upper = high if len(high) <= at else high[: at - 1] + chr(ord(high[at - 1]) + 1)
    return low[:at], upper, len(low) >= at or len(high) >= at


def delta_cut(low: str, high: str, at: int) -> tuple[str, str, bool]:
    upper = high if len(high) <= at else high[:at] + "\x7f"
    return low[:at], upper, len(low) >= at or len(high) > at


def table(
    ends: list[tuple[str, str]],
    at: int = 16,
    *,
    laid_out: bool = False,
    longer: tuple[tuple[str, str], ...] = LONGER,
    cut=iceberg_cut,
    regions: list[str] | None = None,
) -> TableState:
    """Files with these smallest and largest values of the text column `a`, in the order given."""
    marks = {"layout": 0, "group": 0} if laid_out else {}
    files = [File(0, 0, (regions or ["east"] * len(ends))[n], **marks) for n in range(len(ends))]
    observed = state(*files)
    lower, upper, truncated = zip(*(cut(low, high, at) for low, high in ends), strict=True)
    bounds = ColumnBounds(
        pa.array(lower, pa.string()), pa.array(upper, pa.string()), np.zeros(len(ends), np.int64), np.array(truncated)
    )
    column = Column("a", pa.string(), True, longer_bounds=longer)
    return replace(observed, columns=(column,), files=replace(observed.files, bounds={"a": bounds}))


def sorted_files(values: list[str], files: int = 8) -> list[tuple[str, str]]:
    step = len(values) // files
    return [(values[n * step], values[(n + 1) * step - 1]) for n in range(files)]


def shuffled_files(values: list[str], files: int = 8) -> list[tuple[str, str]]:
    order = np.random.default_rng(3).permutation(len(values))
    return [(min(part), max(part)) for part in ([values[i] for i in p] for p in np.array_split(order, files))]


def outcome(decision: PlannedTable) -> tuple[str, list[tuple[str, str]], set[str], list[str]]:
    plan = decision.plan
    properties = [(p.name, p.after) for p in plan.properties]
    return plan.status, properties, {g.reason for g in plan.groups}, [d.code for d in plan.diagnostics]


@pytest.mark.parametrize(("cut", "at"), [(iceberg_cut, 16), (delta_cut, 32)])
def test_urls_are_cut_too_short_and_hashes_are_not(cut, at: int) -> None:
    for ends in (sorted_files(URLS), shuffled_files(URLS)):
        found = examine(table(ends, at, cut=cut).files, "a")
        assert (found.length, found.equal, found.of, found.same) == (at, 8, 8, True)
    for ends in (sorted_files(HASHES), shuffled_files(HASHES)):
        assert examine(table(ends, at, cut=cut).files, "a") is None


def test_nothing_is_wrong_with_bounds_that_are_not_cut() -> None:
    assert examine(table(sorted_files(URLS), at=256).files, "a") is None
    assert examine(state(File(0, 9)).files, "a") is None
    assert examine(state(File(0, 9)).files, "b") is None


def test_files_of_one_long_value_are_not_cut() -> None:
    # Sixteen characters exactly: the cut mark is by length, and bounds that are equal are the value itself.
    assert examine(table([("sixteen chars ok", "sixteen chars ok")] * 8).files, "a") is None


def test_the_first_apply_lengthens_bounds_and_says_why() -> None:
    decision = decide(SPEC, table(shuffled_files(URLS)), DELTA)
    assert outcome(decision) == ("changes", [("prefix", "256")], {Reason.NOT_LAID_OUT}, ["ZL406"])
    change = decision.plan.properties[0]
    assert change.reason is PropertyReason.BOUNDS_TRUNCATED
    assert property_reason(change) == "bounds of a are truncated to length 16 and equal in 8 of 8 files"
    (note,) = decision.plan.diagnostics
    assert note.severity == "note"
    assert note.hint == "apply sets prefix to 256"
    assert decision.properties == (("prefix", "256"),)


def test_the_notes_state_the_length_that_a_sample_needs() -> None:
    observed = table(shuffled_files(URLS))
    decision = decide(SPEC, observed, DELTA)
    for needed, properties, hints in (
        ("96", [("prefix", "96")], ["apply sets prefix to 96"]),
        (None, [], []),
        ("256", [("prefix", "256")], ["apply sets prefix to 256"]),
    ):
        plan = with_values(decision, observed, {"prefix": needed}).plan
        assert [(p.name, p.after) for p in plan.properties] == properties
        assert [d.hint for d in plan.diagnostics if d.code == "ZL406"] == hints


def test_values_that_begin_alike_get_longer_bounds_even_where_the_ends_differ() -> None:
    # Eight characters of a host are all that 16 leave; what lies between the ends may well need more.
    ends = [(f"https://{n}.org/index", f"https://zz{n}.org/index") for n in range(8)]
    assert outcome(decide(SPEC, table(ends), DELTA)) == ("changes", [("prefix", "256")], {Reason.NOT_LAID_OUT}, [])


def test_hashes_are_rewritten_with_the_bounds_they_have() -> None:
    assert outcome(decide(SPEC, table(shuffled_files(HASHES)), DELTA)) == ("changes", [], {Reason.NOT_LAID_OUT}, [])


def test_a_laid_out_table_is_rewritten_once_for_its_bounds() -> None:
    before = decide(SPEC, table(sorted_files(URLS), laid_out=True), DELTA)
    assert outcome(before) == ("changes", [("prefix", "256")], {Reason.BOUNDS_TRUNCATED}, ["ZL406"])
    after = table(sorted_files(URLS), 256, laid_out=True, longer=())
    assert outcome(decide(SPEC, after, DELTA)) == ("unchanged", [], set(), [])


@pytest.mark.parametrize("at", [16, 256])
def test_bounds_that_stay_equal_are_not_planned_again(at: int) -> None:
    # At 16: files older than the property. At 256: values that agree in a thousand characters.
    values = ["x" * 1000 + url for url in URLS]
    stuck = table(sorted_files(values), at, laid_out=True, longer=())
    assert outcome(decide(SPEC, stuck, DELTA)) == ("unchanged", [], set(), ["ZL406"])


def test_a_laid_out_table_that_its_cut_bounds_tell_apart_is_left_alone() -> None:
    assert outcome(decide(SPEC, table(sorted_files(HASHES), laid_out=True), DELTA)) == ("unchanged", [], set(), [])
    # As many files share a prefix as a layout by two columns leaves anyway: 3 of 9.
    two = replace(SPEC, layout=replace(LAYOUT, columns=(ZorderColumn("a"), ZorderColumn("b"))))
    slices = [(f"{n // 3}-of-three-long-prefixes a", f"{n // 3}-of-three-long-prefixes b") for n in range(9)]
    observed = table(slices, laid_out=True)
    assert indistinct_partitions(SPEC, observed).tolist() == [True]
    assert indistinct_partitions(two, observed).tolist() == [False]


def test_only_the_partitions_that_suffer_are_rewritten() -> None:
    ends = [
        *sorted_files(URLS, 4),
        *sorted_files(HASHES, 4),
        ("https://www.example.com/a", "https://www.example.com/b"),
    ]
    regions = ["east"] * 4 + ["north"] * 4 + ["west"]
    decision = decide(SPEC, table(ends, laid_out=True, regions=regions), DELTA)
    assert {g.partition: g.reason for g in decision.plan.groups} == {"region=east": Reason.BOUNDS_TRUNCATED}
    assert len(decision.groups[0].files) == 4


def test_bounds_are_not_lengthened_while_a_partition_that_needs_it_is_refused() -> None:
    """It would look as declared once the property is set."""
    ends = [*sorted_files(URLS, 4), *sorted_files(URLS, 4)]
    observed = table(ends, laid_out=True, regions=["east"] * 4 + ["west"] * 4)
    refusal = replace(null_values("c"), files=np.array([False] * 7 + [True]))
    decision = decide(SPEC, replace(observed, partition_refusals=(refusal,)), DELTA)
    assert outcome(decision)[:2] == ("changes", [])
    assert {g.partition for g in decision.plan.groups} == {"region=east"}


def test_a_budget_takes_all_files_whose_bounds_are_too_short_or_none() -> None:
    """What it left would look as declared once the property is set."""
    ends = [*sorted_files(URLS, 4), *sorted_files(URLS, 4), *sorted_files(HASHES, 3)]
    observed = table(ends, laid_out=True, regions=["east"] * 4 + ["west"] * 4 + ["north"] * 3)
    other = np.array([0] * 8 + [1] * 3, np.int32)  # of another layout
    observed = replace(observed, files=replace(observed.files, layout=other, group=other))
    for budget, regions, properties in (
        (5, ["region=north"], []),
        (8, ["region=east", "region=west"], [("prefix", "256")]),
    ):
        proposal = propose(SPEC, observed, DELTA, options=PlanOptions(max_rewrite_bytes=budget * TARGET))
        assert isinstance(proposal, Proposal)
        (decision,) = settle([proposal], budget * TARGET)
        assert sorted(g.partition for g in decision.plan.groups) == regions
        assert [(p.name, p.after) for p in decision.plan.properties] == properties
        assert [d.hint for d in decision.plan.diagnostics] == ["apply sets prefix to 256"] * len(properties)
        assert decision.plan.that_wait(Wait.BUDGET).files == 11 - sum(g.files for g in decision.plan.groups)
        saved = choose_saved(proposal, {g.id for g in decision.plan.groups})
        assert assemble(saved).plan == decision.plan


def test_a_budget_defers_longer_bounds_also_where_a_column_without_statistics_asks_for_them() -> None:
    """The same property would lengthen the bounds of `a`, whose files would then look as declared."""
    ends = [*sorted_files(URLS, 4), *sorted_files(URLS, 4), *sorted_files(HASHES, 3)]
    two = replace(SPEC, layout=replace(LAYOUT, columns=(ZorderColumn("a"), ZorderColumn("b"))))
    observed = table(ends, laid_out=True, regions=["east"] * 4 + ["west"] * 4 + ["north"] * 3)
    fresh = np.array([0] * 8 + [-1] * 3, np.int32)
    nothing = pa.nulls(11, pa.string())
    boundless = ColumnBounds(nothing, nothing, np.full(11, -1, np.int64), np.zeros(11, bool))
    record = replace(observed.files.layouts[0], layout_id=two.layout.layout_id)
    unread = Column("b", pa.string(), True, stats=False, enable_stats=(("indexed", "2"), *LONGER))
    observed = replace(
        observed,
        columns=(*observed.columns, unread),
        files=replace(
            observed.files,
            layout=fresh,
            group=fresh,
            layouts=(record, *observed.files.layouts[1:]),
            bounds={**observed.files.bounds, "b": boundless},
        ),
    )
    decision = decide(two, observed, DELTA, options=PlanOptions(max_rewrite_bytes=5 * TARGET))
    assert {g.partition for g in decision.plan.groups} == {"region=north"}
    assert [(p.name, p.after) for p in decision.plan.properties] == [("indexed", "2")]


def test_files_of_different_partitions_are_told_apart_by_the_partition() -> None:
    regions = [f"region {n}" for n in range(8)]
    found = examine(table(sorted_files(URLS), regions=regions).files, "a")
    assert (found.equal, found.same) == (0, False)


def test_a_layout_by_two_columns_leaves_more_equal_bounds_in_a_larger_partition() -> None:
    two = replace(SPEC, layout=replace(LAYOUT, columns=(ZorderColumn("a"), ZorderColumn("b"))))
    ends = [*sorted_files(URLS, 4), *sorted_files(HASHES, 5), *sorted_files(URLS, 4)]
    observed = table(ends, laid_out=True, regions=["east"] * 9 + ["north"] * 4)
    assert indistinct_partitions(two, observed).tolist() == [False, True]


def test_partitions_with_more_files_do_not_outvote_one_whose_bounds_are_cut_short() -> None:
    ends = [*sorted_files(URLS, 8), *shuffled_files(HASHES, 64)]
    observed = table(ends, regions=["east"] * 8 + ["west"] * 64)
    layout = np.array([0] * 8 + [-1] * 64, np.int32)
    observed = replace(observed, files=replace(observed.files, layout=layout, group=layout))
    status, properties, reasons, _ = outcome(decide(SPEC, observed, DELTA))
    assert (status, properties) == ("changes", [("prefix", "256")])
    assert reasons == {Reason.BOUNDS_TRUNCATED, Reason.PARTITION_NOT_LAID_OUT}


def test_binary_keys() -> None:
    observed = table(sorted_files(URLS))
    text = observed.files.bounds["a"]
    cast = replace(text, lower=text.lower.cast(pa.binary()), upper=text.upper.cast(pa.binary()))
    found = examine(replace(observed.files, bounds={"a": cast}), "a")
    assert (found.length, found.equal) == (16, 8)


def test_a_single_file_has_nobody_to_be_told_apart_from() -> None:
    one = table([(URLS[0], URLS[-1])])
    assert outcome(decide(SPEC, one, DELTA)) == ("unchanged", [], set(), [])
    large = replace(one, files=replace(one.files, bytes=np.array([8 * TARGET])))
    assert outcome(decide(SPEC, large, DELTA))[1] == [("prefix", "256")], "it becomes many"


def test_bounds_without_an_upper_side() -> None:
    # Delta gives up on a maximum that it cannot round up.
    observed = table(sorted_files(URLS))
    bounds = observed.files.bounds["a"]
    open_ended = replace(bounds, upper=pa.nulls(8, pa.string()))
    found = examine(replace(observed.files, bounds={"a": open_ended}), "a")
    assert (found.equal, found.same) == (0, False)
