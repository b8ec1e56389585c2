"""The published schemas: complete, in step with the code, and every violation reported in words of the YAML file."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.errors import Location
from zlayout.spec.check import Unmet, load_schema, schema_text, unmet, validate
from zlayout.spec.formats import FORMATS
from zlayout.spec.layouts import DEFAULT_CURVE, DEFAULTS, LAYOUT_PATTERNS, parse_partition_key
from zlayout.spec.model import CURVES, WORKLOAD_CURVE
from zlayout.spec.yaml import Document

READ = {"$ref", "allOf", "anyOf", "type", "const", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum"}
READ |= {"exclusiveMinimum", "items", "minItems", "maxItems", "uniqueItems", "properties", "additionalProperties"}
READ |= {"required", "propertyNames", "minProperties", "oneOf", "dependencies"}
ANNOTATIONS = {"$schema", "$id", "title", "description", "default", "examples", "definitions", "x-code", "x-hint"}
SCHEMAS = ["layout", "project"]


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(schema, dict):
        return
    yield schema
    inner = [*schema.get("allOf", ()), *schema.get("anyOf", ()), schema.get("items"), schema.get("propertyNames")]
    inner += [schema.get("additionalProperties"), *schema.get("properties", {}).values()]
    inner += schema.get("definitions", {}).values()
    for part in inner:
        yield from schemas_in(part)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_valid_closed_and_say_what_every_key_is(name: str) -> None:
    schema = load_schema(name)
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    for part in schemas_in(schema):
        assert set(part) <= READ | ANNOTATIONS
        if part.get("type") == "object":
            assert "additionalProperties" in part
            assert part["additionalProperties"] is not True
        for key, entry in part.get("properties", {}).items():
            assert entry.get("description"), key
            assert entry.get("examples"), key


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_example_in_a_schema_is_valid(name: str) -> None:
    schema = load_schema(name)
    for part in schemas_in(schema):
        for key, entry in part.get("properties", {}).items():
            for example in entry["examples"]:
                jsonschema.validate(example, {**entry, "definitions": schema["definitions"]})
                if "default" in entry:
                    jsonschema.validate(entry["default"], {**entry, "definitions": schema["definitions"]})
            assert key


def test_defaults_curves_and_engines_are_those_of_the_code() -> None:
    layout = load_schema("layout")["properties"]
    shown = {
        group: {k: v["default"] for k, v in layout[group]["properties"].items() if "default" in v}
        for group in ("zorder", "files", "tolerance")
    }
    assert {**shown, "engine": layout["engine"]["default"]} == DEFAULTS
    assert tuple(layout["zorder"]["properties"]["curve"]["enum"]) == (*CURVES, WORKLOAD_CURVE)
    assert layout["engine"]["enum"] == list(DEFAULT_CURVE)
    project = load_schema("project")["properties"]
    assert tuple(project["layouts"]["default"]) == LAYOUT_PATTERNS
    published = json.loads(schema_text("project"))["definitions"]["catalog"]["properties"]
    assert published["format"]["enum"] == list(FORMATS)
    assert set(published["type"]["enum"]) == {kind for f in FORMATS.values() for kind in f.catalog_types}
    defaults = project["defaults"]["properties"]
    assert (defaults["files"], defaults["tolerance"], defaults["engine"]) == (
        layout["files"],
        layout["tolerance"],
        layout["engine"],
    )
    ours = {k: v for k, v in layout["zorder"]["properties"].items() if k not in ("columns", "curve", "cuts")}
    of_zorder = defaults["zorder"]["properties"]
    assert {k: v for k, v in of_zorder.items() if k != "curve"} == ours
    assert tuple(of_zorder["curve"]["enum"]) == CURVES  # without cuts, which belong to one table


def test_the_partition_keys_that_the_schema_lists_are_keys() -> None:
    text = load_schema("layout")["properties"]["partition_by"]["description"]
    listed = re.findall(r"\w+\([^)]*\)", text)
    assert len(listed) == 7
    for key in listed:
        assert str(parse_partition_key(key, Location("f"))) in (key, "c")


def test_only_the_published_schemas_can_be_asked_for() -> None:
    assert schema_text("layout").startswith("{")
    with pytest.raises(KeyError):
        schema_text("../../pyproject")


SCALARS = st.sampled_from(
    [
        "a", "", "10%", "1.5x", "128MiB", "128 MiB\n", "0.5KiB", "101%", "kd", "zorder", "native", "delta", "iceberg",
        "sql",
    ]
) | st.sampled_from(
    ["lake.a.b", "spark.local.dir", "x" * 1001, True, False, None, 0, 1, 2, 1024, -1, 0.5, 1.5, 10**16, 65536, 65537]
)  # fmt: skip
LAYOUT_KEYS = "version table description tags partition_by zorder files where tolerance engine columns curve range_ids"
LAYOUT_KEYS += " noise target_size sort_within unclustered touched small_files deleted_rows name weight other"
PROJECT_KEYS = LAYOUT_KEYS + " layouts catalogs spark defaults format type warehouse uri tables properties master conf"
PROJECT_KEYS += " spark.local.dir spark.jars spark.sql.extensions spark.plugins lake x-y spark_catalog cache-enabled"


def value_for(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values near what a schema takes: right shapes with right and wrong scalars in them."""
    if "$ref" in schema:
        return value_for(root["definitions"][schema["$ref"].rpartition("/")[2]], root)
    if "allOf" in schema:
        return value_for(schema["allOf"][0], root)
    if "anyOf" in schema and "properties" not in schema:  # else which keys are required
        return st.one_of(SCALARS, *(value_for(part, root) for part in schema["anyOf"]))
    if schema.get("type") == "object":
        known = {key: value_for(part, root) for key, part in schema.get("properties", {}).items()}
        names = st.sampled_from(PROJECT_KEYS.split())
        others = schema.get("additionalProperties")
        extra = st.dictionaries(names, value_for(others, root) if isinstance(others, dict) else SCALARS, max_size=2)
        needed = {key: known.pop(key) for key in schema.get("required", ())}
        drawn = st.fixed_dictionaries(needed, optional=known)
        return st.one_of(drawn, drawn, st.builds(lambda a, b: {**a, **b}, drawn, extra), SCALARS)
    if schema.get("type") == "array":
        return st.one_of(st.lists(value_for(schema["items"], root), max_size=3), SCALARS)
    right = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ()), *schema.get("examples", ())]
    scalars = [v for v in right if not isinstance(v, list | dict)]
    return st.one_of(*([st.sampled_from(scalars)] * 6 if scalars else ()), SCALARS)


@cache
def documents(name: Literal["layout", "project"]) -> st.SearchStrategy[dict[str, Any]]:
    schema = load_schema(name)
    return value_for(schema, schema).filter(lambda v: isinstance(v, dict))


@pytest.mark.parametrize("name", SCHEMAS)
@given(data=st.data())
def test_every_violation_found_by_jsonschema_has_a_message_of_our_own(
    name: Literal["layout", "project"], data: st.DataObject
) -> None:
    value = data.draw(documents(name))
    ours = validate(Document(value, {}, Location("f")), name)
    theirs = list(jsonschema.Draft7Validator(load_schema(name)).iter_errors(value))
    assert ours or not theirs
    assert all(d.location == Location("f") and d.message and d.code.startswith("ZL0") for d in ours)
    assert len(set(ours)) == len(ours)


@pytest.mark.parametrize("name", SCHEMAS)
@given(data=st.data())
def test_what_is_unmet_is_what_jsonschema_finds(name: Literal["layout", "project"], data: st.DataObject) -> None:
    """Independent implementation: jsonschema, with the two points in which the validator is stricter."""

    def pattern(
        _validator: object, expected: str, value: object, _schema: object
    ) -> Iterator[jsonschema.ValidationError]:
        if isinstance(value, str) and not re.search(re.sub(r"\$\Z", r"\\Z", expected), value):
            yield jsonschema.ValidationError(f"{value!r} does not match {expected!r}")

    strict = jsonschema.validators.extend(
        jsonschema.Draft7Validator, {"pattern": pattern}, type_checker=jsonschema.Draft4Validator.TYPE_CHECKER
    )
    schema, value = load_schema(name), data.draw(documents(name))
    theirs = [_comparable(error) for error in strict(schema).iter_errors(value)]
    ours = [_comparable(found) for found in unmet(value, schema, schema["definitions"])]
    # jsonschema has an error for each key that `required` names, and goes through other keys in no order
    assert set(ours) == set(theirs)


def _comparable(found: Unmet | jsonschema.ValidationError) -> tuple[object, ...]:
    """The keyword, the path, the value, whether it is a name, and the same of what the alternatives lack."""
    if isinstance(found, Unmet):
        inner = [one for part in found.alternatives for one in part]
        return (found.keyword, found.path, repr(found.value), found.of_name, frozenset(map(_comparable, inner)))
    inner, of_name = found.context or (), "propertyNames" in found.absolute_schema_path
    values = (found.validator, tuple(found.absolute_path), repr(found.instance), of_name)
    return (*values, frozenset(map(_comparable, inner)))


@pytest.mark.parametrize(
    ("keyword", "expected", "value", "met"),
    [
        ("const", 1, True, False),
        ("const", 1, 1.0, True),
        ("enum", ["a", "b"], ["a"], False),
        ("exclusiveMinimum", 0, 0, False),
        ("exclusiveMinimum", 0, "0", True),
        ("maximum", 1, 2, False),
        ("maximum", 1, True, True),
        ("maxItems", 1, [1, 2], False),
        ("maxLength", 1, "ab", False),
        ("minimum", 1, 0.5, False),
        ("minItems", 1, [], False),
        ("minLength", 1, "", False),
        ("minProperties", 1, {}, False),
        ("pattern", "^a$", "a\n", False),
        ("required", ["a"], {"b": 1}, False),
        ("dependencies", {"a": ["b"]}, {"a": 1}, False),
        ("dependencies", {"a": ["b"]}, {}, True),
        ("uniqueItems", True, [[1], [True]], True),
        ("uniqueItems", True, [{"a": 1}, {"a": 1}], False),
        ("type", "integer", True, False),
        ("type", "integer", 1.0, False),
        ("type", ["string", "number"], 1.5, True),
    ],
)
def test_a_keyword_is_met_or_not(keyword: str, expected: object, value: object, met: bool) -> None:
    assert [found.keyword for found in unmet(value, {keyword: expected}, {})] == ([] if met else [keyword])


def test_a_schema_with_an_unknown_keyword_is_an_error() -> None:
    with pytest.raises(KeyError):
        list(unmet(1, {"multipleOf": 2}, {}))


def layout(**changes: object) -> Document:
    data = {"version": 1, "table": "lake.t", "zorder": {"columns": ["a"]}} | changes
    return Document(data, {}, Location("f"))


def test_several_mistakes_at_several_depths_come_at_once_and_each_once() -> None:
    columns = [{"nam": "a", "weight": 0}, {"name": "b", "weight": "x"}, 3]
    found = validate(layout(zorder={"columns": columns, "noise": "no", "curve": 5}, files=[]), "layout")
    assert sorted((d.code, d.message, d.hint) for d in found) == [
        ("ZL010", "unknown key 'nam' in zorder.columns[0]", "did you mean 'name'?"),
        ("ZL011", "key 'name' is missing in zorder.columns[0]", "for example name: l_shipdate"),
        ("ZL013", "expected a column name or {name, weight} for zorder.columns[2], found the number 3", ""),
        ("ZL013", "expected a map with target_size, sort_within, max_group_size for files, found a list", ""),
        ("ZL013", "expected a number above 0, at most 1000 for zorder.columns[0].weight, found the number 0", ""),
        ("ZL013", "expected a number above 0, at most 1000 for zorder.columns[1].weight, found 'x'", ""),
        ("ZL013", "expected true or false for zorder.noise, found 'no'", ""),
        ("ZL014", "expected kd, zorder, hilbert, linear or workload for zorder.curve, found the number 5", ""),
    ]


def test_what_stock_jsonschema_would_let_through_is_a_mistake_here() -> None:
    document = layout(zorder={"columns": ["a"], "range_ids": 1000.0}, files={"target_size": "128MiB\n"})
    assert [*jsonschema.Draft7Validator(load_schema("layout")).iter_errors(document.data)] == []
    assert [d.message.partition(",")[0] for d in validate(document, "layout")] == [
        "expected a whole number from 2 to 65536 for zorder.range_ids",
        "expected a size such as 128MiB",
    ]
