import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pydantic
import pytest
from unit.planner.plans import DELTA, SPEC, File, state

from zlayout.errors import Refused, SpecError
from zlayout.planner import document
from zlayout.planner.diff import decide
from zlayout.planner.model import Plan
from zlayout.planner.run_report import Boxes, Picture, ResultStatus, RunReport, TableResult
from zlayout.spec.check import load_schema

ROOT = Path(__file__).parents[3]


@pytest.fixture
def plan() -> Plan:
    files = state(File(0, 9), File(0, 9), File(0, 4, "west", layout=1, group=0), File(5, 9, "west"))
    return Plan("0.1.0", (decide(SPEC, files, DELTA).plan,))


def test_a_plan_survives_the_trip_through_its_file(plan: Plan) -> None:
    assert document.from_json(document.to_json(plan), "plan.json").plan == plan


def test_a_plan_with_all_its_pictures_survives_the_trip(plan: Plan) -> None:
    """Pictures are the most values for their characters: fifty tables, each drawn with as many boxes as there are."""
    boxes = Boxes(tuple(range(100, 900)) * 4, 800)
    picture = Picture(("a", "b"), "", boxes, boxes, (), ())
    (table,) = plan.tables
    tables = tuple(replace(table, table=f"{table.table}{at}") for at in range(50))
    report = RunReport(replace(plan, tables=tables), pictures={t.table: picture for t in tables})
    assert document.from_json(document.to_json(report), "plan.json") == report


def test_the_document_fits_its_schema(plan: Plan) -> None:
    jsonschema.Draft202012Validator(load_schema("plan")).validate(json.loads(document.to_json(plan)))


def test_every_key_of_the_schema_is_described() -> None:
    schema = load_schema("plan")
    objects = [node for node in (schema, *schema["$defs"].values()) if "properties" in node]
    assert [key for node in objects for key, value in node["properties"].items() if "description" not in value] == []
    assert all(node["additionalProperties"] is False for node in objects)


@pytest.mark.skipif(
    f"\npydantic=={pydantic.VERSION} " not in (ROOT / "requirements.lock").read_text(),
    reason="other versions of pydantic write another schema for the same types",
)
def test_the_published_schema_is_the_one_of_the_code() -> None:
    assert load_schema("plan") == document.schema(), "run `make schemas`"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda d: d.update(surprise=1), "ZL041"),
        (lambda d: d["tables"][0].update(path="/etc"), "ZL041"),
        (lambda d: d["tables"][0].update(files="many"), "ZL041"),
        (lambda d: d["tables"][0]["requirements"].pop("table_id"), "ZL041"),
        (lambda d: d.update(tables="all"), "ZL041"),
    ],
)
def test_what_is_not_a_plan_is_refused_with_its_place(plan: Plan, change, code: str) -> None:
    body = json.loads(document.to_json(plan))
    change(body)
    with pytest.raises(SpecError) as caught:
        document.from_json(json.dumps(body), "plan.json")
    assert caught.value.diagnostics[0].code == code
    assert caught.value.diagnostics[0].location.path == "plan.json"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update(files="1"), "tables.0.files: expected a valid integer, found '1'"),
        (lambda t: t.update(files=1.0), "tables.0.files: expected a valid integer, found the number 1.0"),
        (lambda t: t.update(files=True), "tables.0.files: expected a valid integer, found true"),
        (lambda t: t.update(files=-1), "tables.0.files: expected greater than or equal to 0, found the number -1"),
        (lambda t: t.update(format=1), "tables.0.format: expected a valid string, found the number 1"),
        (lambda t: t.update(status="odd"), "tables.0.status: expected 'unchanged', 'changes', 'refused' or 'error'"),
        (lambda t: t.update(actions={}), "tables.0.actions: expected a list, found a map"),
        (
            lambda t: t["actions"][0].update(rows=None),
            "tables.0.actions.0.rewrite_group.rows: expected a valid integer",
        ),
        (lambda t: t["actions"][0].update(kind="drop"), "tables.0.actions.0: "),
        (lambda t: t.update(size_histogram=[["a", 1]] * 101), "tables.0.size_histogram: "),
        (lambda t: t.update({f"k{n}": n for n in range(50)}), "expected at most 40 keys in an object, found "),
        (lambda t: t.update(rows=2**63), "a number of more than 64 bits"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_what_was_expected(plan: Plan, change, message: str) -> None:
    body = json.loads(document.to_json(plan))
    change(body["tables"][0])
    with pytest.raises(SpecError, match=re.escape(message)):
        document.from_json(json.dumps(body), "plan.json")


@pytest.mark.parametrize(
    ("change", "end"),
    [
        (lambda t: t["requirements"].pop("schema"), "requirements.schema: expected a value, found nothing"),
        (lambda t: t.update(path="/etc"), "tables.0.path: expected no such key"),
    ],
)
def test_a_missing_or_unknown_key_is_reported_without_a_value(plan: Plan, change, end: str) -> None:
    body = json.loads(document.to_json(plan))
    change(body["tables"][0])
    with pytest.raises(SpecError) as caught:
        document.from_json(json.dumps(body), "plan.json")
    assert caught.value.diagnostics[0].message.endswith(end)


def test_a_result_of_a_table_without_a_plan_is_refused(plan: Plan) -> None:
    table = plan.tables[0].table
    result = TableResult("run", ResultStatus.AS_DECLARED, commits=1, files_removed=2, files_added=1, bytes_added=9)
    report = RunReport(plan, {table: result})
    body = json.loads(document.to_json(report))
    assert document.from_json(json.dumps(body), "plan.json") == report
    body["results"][0]["table"] = "lake.db.other"
    with pytest.raises(SpecError, match=r"ZL041 .*lake\.db\.other: a result of a table without a plan"):
        document.from_json(json.dumps(body), "plan.json")


def test_changes_without_requirements_are_refused(plan: Plan) -> None:
    body = json.loads(document.to_json(plan))
    body["tables"][0]["requirements"] = None
    with pytest.raises(SpecError, match=r"ZL041 .*expected requirements for the changes, found none"):
        document.from_json(json.dumps(body), "plan.json")


WAITING = {"reason": "rarely_read", "groups": 1, "files": 2, "bytes": 3, "partition_numbers": [1]}
HOT = WAITING | {"reason": "hot", "after": 0}
BUDGET = WAITING | {"reason": "budget", "budget": 0, "ranked_by": "touched", "partition_numbers": []}


def test_each_reason_to_wait_has_its_own_fields(plan: Plan) -> None:
    body = json.loads(document.to_json(plan))
    body["tables"][0]["waiting"] = [WAITING, HOT, BUDGET]
    assert len(document.from_json(json.dumps(body), "plan.json").plan.tables[0].waiting) == 3


@pytest.mark.parametrize(
    "waiting",
    [
        [HOT, HOT],
        [WAITING | {"reason": "no_gain"}],
        [WAITING | {"reason": "refused"}],
        [WAITING | {"reason": "hot"}],
        [WAITING | {"after": 0}],
        [WAITING | {"budget": 0}],
        [BUDGET | {"ranked_by": None}],
        [BUDGET | {"budget": None}],
    ],
)
def test_groups_that_wait_for_no_known_reason_are_refused(plan: Plan, waiting: list[dict[str, object]]) -> None:
    body = json.loads(document.to_json(plan))
    body["tables"][0]["waiting"] = waiting
    with pytest.raises(SpecError, match=r"ZL041 .*waiting: expected"):
        document.from_json(json.dumps(body), "plan.json")


@pytest.mark.parametrize("name", ["clustering", "location", "branch"])
def test_a_plan_that_leaves_out_a_requirement_is_refused(plan: Plan, name: str) -> None:
    body = json.loads(document.to_json(plan))
    del body["tables"][0]["requirements"][name]
    with pytest.raises(SpecError, match=rf"ZL041 .*{name}"):
        document.from_json(json.dumps(body), "plan.json")


def test_a_duplicate_key_is_reported(plan: Plan) -> None:
    text = document.to_json(plan).replace('"exit_code": 0,', '"exit_code": 0, "exit_code": 0,', 1)
    with pytest.raises(SpecError, match=r"ZL040 .*duplicate key"):
        document.from_json(text, "plan.json")


def test_a_plan_of_any_number_of_tables_has_few_enough_values(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "BASE_VALUES", 0)
    (table,) = plan.tables
    many = replace(plan, tables=tuple(replace(table, table=f"lake.db.t{n}", actions=()) for n in range(50)))
    assert not document.too_large(document.to_json(many))
    assert document.too_large(json.dumps([[n] for n in range(1000)]))


def test_a_group_takes_one_line(plan: Plan) -> None:
    lines = document.to_json(plan).splitlines()
    assert sum('"kind": "rewrite_group"}' in line for line in lines) == len(plan.tables[0].groups) == 2


def test_another_version_is_refused_with_the_zlayout_that_wrote_it(plan: Plan) -> None:
    body = json.loads(document.to_json(plan)) | {"format_version": 1, "zlayout_version": "0.1.0"}
    with pytest.raises(
        Refused, match=r"plan format version 3, found the number 1, written by zlayout 0\.1\.0"
    ) as caught:
        document.from_json(json.dumps(body), "plan.json")
    assert caught.value.diagnostics[0].hint == "run `zlayout plan` again"


@pytest.mark.parametrize("version", [1, 2, 4, 0, "1", None, 1.0, True])
def test_a_plan_of_another_format_version_is_refused(plan: Plan, version: object) -> None:
    body = json.loads(document.to_json(plan)) | {"format_version": version}
    with pytest.raises(Refused, match="ZL206") as caught:
        document.from_json(json.dumps(body), "plan.json")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        document.from_json(text, "plan.json")


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(SpecError, match="ZL040"):
            document.read(path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="UTF-8"):
        document.read(tmp_path / "bytes")
