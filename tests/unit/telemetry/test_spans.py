"""The spans of commands, as a real collector receives them."""

from itertools import pairwise
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.collector import Collector, values
from support.projects import Cli, Scripted

import zlayout
from zlayout.errors import EngineError
from zlayout.telemetry.spans import Spans

TABLE = "lake.db.orders"


def tree(collector: Collector) -> dict[str, list[str]]:
    """The names of the children by the name of the span; '' is above the roots."""
    names = {span.span_id: span.name for span in collector.spans()}
    found: dict[str, list[str]] = {}
    for span in collector.spans():
        found.setdefault(names.get(span.parent_span_id, ""), []).append(span.name)
    return found


def named(collector: Collector, name: str) -> Span:
    return [span for span in collector.spans() if span.name == name][-1]


def test_apply_has_a_span_for_each_table_and_for_each_thing_that_is_done_to_it(
    memory: Scripted, cli: Cli, collector: Collector
) -> None:
    assert "ZL452" not in cli("apply", "--auto-approve").err
    assert tree(collector) == {
        "": ["zlayout apply"],
        "zlayout apply": [f"table {TABLE}"],
        f"table {TABLE}": ["observing", "starting_spark", "rewriting", "observing"],
    }
    (event,) = named(collector, "rewriting").events
    assert event.name == "commit"
    found = {key.removeprefix("zlayout.commit."): value for key, value in values(event.attributes).items()}
    state = memory.observe(zlayout.load_project().layouts[0].table, ["a"])
    assert found.pop("bytes_removed") == 7667
    assert found == {
        "kind": "rewrite",
        "version": state.version,
        "files_removed": 4,
        "files_added": len(state.files),
        "bytes_added": int(state.files.bytes.sum()),
        "rows": 200,
    }
    table = values(named(collector, f"table {TABLE}").attributes)
    assert len(str(table.pop("zlayout.run_id"))) == 32
    assert table == {
        "zlayout.table": TABLE,
        "zlayout.format": "memory",
        "zlayout.status": "changes",
        "zlayout.outcome": "as_declared",
    }
    assert values(named(collector, "zlayout apply").attributes) == {"zlayout.tables": 1, "process.exit.code": 0}
    assert {span.status.code for span in collector.spans()} == {Status.STATUS_CODE_UNSET}


@pytest.mark.usefixtures("memory")
def test_a_span_lies_within_the_span_above_it(cli: Cli, collector: Collector) -> None:
    cli("apply", "--auto-approve")
    spans = {span.span_id: span for span in collector.spans()}
    below = [span for span in spans.values() if span.parent_span_id]
    assert len(below) == 5
    for span in below:
        above = spans[span.parent_span_id]
        assert above.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= above.end_time_unix_nano
    steps = [span for span in collector.spans() if not span.name.startswith(("zlayout", "table"))]
    for one, following in pairwise(steps):
        assert one.end_time_unix_nano <= following.start_time_unix_nano


def test_a_step_that_has_ended_begins_as_long_ago_as_it_took() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = Spans(provider.get_tracer("test"), "plan", {})
    spans.step("t", "observing", 2.5)
    spans.close(None)
    step, table, _ = exporter.get_finished_spans()
    for span in (step, table):
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.end_time - span.start_time == 2_500_000_000


@pytest.mark.usefixtures("root")
def test_plan_and_drift_have_spans_and_what_they_find_is_no_error(cli: Cli, collector: Collector) -> None:
    cli("plan", "--sample", "--detailed-exitcode", code=2)
    cli("drift", code=2)
    assert tree(collector)[""] == ["zlayout plan", "zlayout drift"]
    assert tree(collector)[f"table {TABLE}"] == ["observing", "sampling", "observing"]
    for name in ("zlayout plan", "zlayout drift"):
        assert values(named(collector, name).attributes)["process.exit.code"] == 2
    assert {span.status.code for span in collector.spans()} == {Status.STATUS_CODE_UNSET}


def test_an_error_is_its_code_without_secrets_and_values_of_rows(
    memory: Scripted, cli: Cli, collector: Collector
) -> None:
    memory.breaks = ZeroDivisionError("cannot divide 'a-row-value' by 0, password=hunter2")
    assert "a-row-value" in cli("apply", "--auto-approve", code=1).err
    for name in ("starting_spark", f"table {TABLE}", "zlayout apply"):
        span = named(collector, name)
        assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "ZL307")
        assert values(span.attributes)["error.type"] == "ZL307"
        assert {"zlayout.code": "ZL307", "zlayout.severity": "error"} in [values(e.attributes) for e in span.events]
    assert values(named(collector, "zlayout apply").attributes)["process.exit.code"] == 1
    for _, body in collector.requests:
        assert b"a-row-value" not in body
        assert b"hunter2" not in body
        assert b"ZeroDivisionError" not in body


def test_a_group_that_conflicts_is_an_error_of_its_stage_alone(
    memory: Scripted, cli: Cli, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, runs = memory.execute, []
    monkeypatch.setattr("zlayout.app.apply.RETRY_SECONDS", 0.0)

    def execute(work: object, notify: object) -> object:
        runs.append(work)
        if len(runs) > 1:
            yield from whole(work, notify)  # type: ignore[arg-type]
            return
        notify(zlayout.Progress(TABLE, "rewriting"))  # type: ignore[operator, arg-type]
        yield zlayout.GroupFailed(("g",), EngineError.of("ZL320", "someone was faster"))

    monkeypatch.setattr(memory, "execute", execute)
    cli("apply", "--auto-approve")
    rewrites = [span for span in collector.spans() if span.name == "rewriting"]
    assert [span.status.message for span in rewrites] == ["ZL320", ""]
    assert named(collector, f"table {TABLE}").status.code == Status.STATUS_CODE_UNSET


def test_a_table_that_cannot_be_read_is_an_error(root: Path, cli: Cli, collector: Collector) -> None:
    (root / "layouts/missing.yaml").write_text("version: 1\ntable: lake.db.missing\nzorder: {columns: [a]}\n")
    cli("plan", code=1)
    assert named(collector, "table lake.db.missing").status.message == "ZL110"
    assert values(named(collector, "table lake.db.missing").attributes)["zlayout.status"] == "error"
    assert named(collector, f"table {TABLE}").status.code == Status.STATUS_CODE_UNSET
    assert named(collector, "zlayout plan").status.message == "ZL110"


def test_a_command_that_cannot_start_is_an_error_of_the_command(root: Path, cli: Cli, collector: Collector) -> None:
    (root / "zlayout.yaml").write_text("version: 1\ncatalogs: {lake: {format: unknown}}\n")
    cli("plan", code=1)
    (span,) = collector.spans()
    assert (span.name, span.status.message) == ("zlayout plan", "ZL014")
    assert [event.name for event in span.events] == ["diagnostic"]


@pytest.mark.usefixtures("memory")
def test_an_interrupt_ends_all_spans(collector: Collector) -> None:
    def interrupt(event: zlayout.ApplyEvent) -> None:
        if isinstance(event, zlayout.TableEvent):
            raise KeyboardInterrupt

    plan = zlayout.plan(zlayout.load_project())
    with pytest.raises(KeyboardInterrupt):
        zlayout.apply(plan, on_event=interrupt)
    assert tree(collector)["zlayout apply"] == [f"table {TABLE}"]
    assert tree(collector)[f"table {TABLE}"] == ["observing", "starting_spark", "rewriting"]
    assert named(collector, "zlayout apply").status.message == "Interrupted"
    table = [span for span in collector.spans() if span.name == f"table {TABLE}"][-1]
    assert values(table.attributes)["zlayout.outcome"] == "interrupted"


@pytest.mark.usefixtures("root")
def test_the_trace_of_a_scheduler_is_continued(cli: Cli, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    monkeypatch.setenv("TRACEPARENT", f"00-{trace}-{span}-01")
    monkeypatch.setenv("TRACESTATE", "scheduler=nightly")
    cli("plan")
    assert {found.trace_id.hex() for found in collector.spans()} == {trace}
    root = named(collector, "zlayout plan")
    assert (root.parent_span_id.hex(), root.trace_state) == (span, "scheduler=nightly")


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(("parent", "sent"), [("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", 0), ("?", 3)])
def test_a_parent_that_is_not_sampled_has_no_children_and_a_malformed_one_is_ignored(
    cli: Cli, collector: Collector, monkeypatch: pytest.MonkeyPatch, parent: str, sent: int
) -> None:
    monkeypatch.setenv("TRACEPARENT", parent)
    assert "ZL452" not in cli("plan").err
    assert len(collector.spans()) == sent
    assert "/v1/metrics" in collector.paths()
