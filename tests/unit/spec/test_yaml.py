"""The strict YAML reader: what it takes, what it refuses, and where it says things are."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from zlayout.errors import Location, SpecError
from zlayout.spec.yaml import _PLAIN, MAX_BYTES, _parsed, dump, parse, plain_value, read
from zlayout.text import quote_value


def load(text: str) -> Any:
    return parse(text.encode(), "f.yaml").data


def error(content: str | bytes) -> str:
    with pytest.raises(SpecError) as caught:
        parse(content.encode() if isinstance(content, str) else content, "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("FALSE", False), ("yes", "yes"), ("on", "on"), ("no", "no"), ("Off", "Off"), ("y", "y"),
        ("~", None), ("null", None), ("", None), ("12", 12), ("-3", -3), ("0", 0), ("010", "010"), ("0o14", "0o14"),
        ("0x1f", "0x1f"), ("0b11", "0b11"), ("1_000", "1_000"), ("190:20:30", "190:20:30"), ("1.5", 1.5), (".5", 0.5),
        ("1e3", 1000.0), ("1e999", "1e999"), (".inf", ".inf"), (".nan", ".nan"), ("9" * 31, "9" * 31),
        ("+" + "9" * 30, int("9" * 30)),
        ("2026-01-31", "2026-01-31"), ("2026-01-31T10:00:00Z", "2026-01-31T10:00:00Z"), ("1.5x", "1.5x"),
        ("10%", "10%"), ("=", "="),
    ],
)  # fmt: skip
def test_plain_scalars_follow_yaml_1_2_without_its_surprises(text: str, value: object) -> None:
    found = plain_value(text)
    assert found == value
    assert type(found) is type(value)


def test_quoted_scalars_are_text_whatever_they_look_like() -> None:
    assert load("""a: "true"\nb: '12'\nc: |\n  null\n""") == {"a": "true", "b": "12", "c": "null\n"}


def test_keys_are_always_text() -> None:
    many = "9" * 31
    expected = {"1": "a", "true": "b", "2026-01-01": "c", many: many}
    assert load(f"1: a\ntrue: b\n2026-01-01: c\n{many}: '{many}'\n") == expected


def test_marks_name_every_key_and_list_item() -> None:
    text = "version: 1\nzorder:\n  columns: [a, {name: b, weight: 2}]\nlist:\n  - x\n  -   y\n"
    locations = parse(text.encode(), "f.yaml").locations
    assert {key: (at.line, at.column) for key, at in locations.items()} == {
        "version": (1, 1),
        "zorder": (2, 1),
        "zorder.columns": (3, 3),
        "zorder.columns[0]": (3, 13),
        "zorder.columns[1]": (3, 16),
        "zorder.columns[1].name": (3, 17),
        "zorder.columns[1].weight": (3, 26),
        "list": (4, 1),
        "list[0]": (5, 5),
        "list[1]": (6, 7),
    }
    assert locations["version"] == Location("f.yaml", 1, 1)


TAGS = "f.yaml:1:4: ZL006 YAML tags (!) are not supported (quote the value if it is text)"
UNCLOSED = "while parsing a flow sequence, expected ',' or ']', but got '<stream end>'"
CONFLICT = "f.yaml:2:1: ZL005 invalid YAML: a merge conflict (resolve the conflict)"
TOO_LONG = "ZL013 expected an integer of at most 30 digits,"
ESCAPED = "f.yaml:3:1: ZL007 duplicate key '\\x1b[31mb' (first defined on line 2) (keep one of them)"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: ZL007 duplicate key 'a' (first defined on line 1) (keep one of them)"),
        ("a: {b: 1, b: 2}", "f.yaml:1:11: ZL007 duplicate key 'b' (first defined on line 1) (keep one of them)"),
        ("1: a\n'1': b\n", "f.yaml:2:1: ZL007 duplicate key '1' (first defined on line 1) (keep one of them)"),
        (
            "a: &x 1\nb: *x\n",
            "f.yaml:1:4: ZL006 YAML anchors (&) are not supported (write the value out where it is needed)\n"
            "f.yaml:2:4: ZL006 YAML aliases (*) are not supported (write the value out)",
        ),
        (
            "<<: {a: 1}\n",
            "f.yaml:1:1: ZL006 YAML merge keys (<<) are not supported (use defaults: in zlayout.yaml)",
        ),
        ("a: !!python/name:os.system x\n", TAGS),
        ("a: !!str 1\n", TAGS),
        (
            "a: 1\n---\nb: 2\n",
            "f.yaml:2:1: ZL006 expected one YAML document, found several (use one file for each)",
        ),
        ("? [a]\n: 1\n", "f.yaml:1:3: ZL006 expected a name as key, found a list or a map"),
        ("- a\n", "f.yaml:1:1: ZL008 expected keys and values, found a list"),
        ("", "f.yaml:1:1: ZL008 expected keys and values, found nothing"),
        ("# only a comment\n", "f.yaml:1:1: ZL008 expected keys and values, found nothing"),
        ("a:\n\tb: 1\n", "f.yaml:2:1: ZL005 expected spaces, found a tab (use spaces instead of tabs)"),
        ("a:\tb\n", "f.yaml:1:3: ZL005 expected spaces, found a tab (use spaces instead of tabs)"),
        ("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> other\n", CONFLICT),
        ("a: 1\n<<<<<<< HEAD\n\tb: 2\n=======\n\tb: 3\n>>>>>>> other\n", CONFLICT),
        ("a: [1, 2\n", f"f.yaml:2:1: ZL005 invalid YAML: {UNCLOSED}"),
        ("a: 1\n b: 2\n", "f.yaml:2:3: ZL005 invalid YAML: mapping values are not allowed here"),
        ("a: é\nb: \x00\n", "f.yaml:2:4: ZL003 expected text, found the character U+0000"),
        ('a: "\\0"\n', "f.yaml:1:4: ZL003 expected text, found the character U+0000"),
        ('a: "\\ud800"\n', "f.yaml:1:4: ZL003 expected text, found the character U+D800"),
        ('a: 1\nb: "\\U00110000"\n', "f.yaml:2:7: ZL005 invalid YAML: a number out of range"),
        ('a: "\\Uffffffff"\n', "f.yaml:1:7: ZL005 invalid YAML: a number out of range"),
        ("%YAML 1." + "1" * 5000 + "\n---\na: 1\n", "f.yaml:1:9: ZL005 invalid YAML: a number out of range"),
        ("a: é\nb: é".encode("latin-1"), "f.yaml:1:4: ZL003 expected UTF-8 text, found byte 0xe9"),
        ("a: {b: [-" + "9" * 31 + "]}\n", f"f.yaml:1:9: {TOO_LONG} found 31 digits (quote the value if it is text)"),
        ("a: " + "9" * 5000 + "\n", f"f.yaml:1:4: {TOO_LONG} found 5000 digits (quote the value if it is text)"),
        ("a: 1".encode("utf-16"), "f.yaml:1:1: ZL003 expected UTF-8 text, found byte 0xff"),
        ("a: " + "[" * 30, "f.yaml:1:23: ZL004 expected at most 20 levels, found more"),
        (b"#" * (MAX_BYTES + 1), "f.yaml: ZL004 expected a file of at most 256 KiB, found more"),
        ('a: 1\n"\\e[31mb": 1\n"\\e[31mb": 2\n', ESCAPED),
    ],
)
def test_what_is_refused_and_where(content: str | bytes, expected: str) -> None:
    assert error(content) == expected


def test_twenty_levels_and_a_byte_order_mark_are_fine() -> None:
    assert load("\ufeffa: " + "[" * 18 + "1" + "]" * 18)["a"] is not None


def test_at_most_twenty_mistakes_of_a_file_are_reported() -> None:
    assert error("\n".join(f"a{i}: *x" for i in range(1000))).count("\n") == 19


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    cases = {
        "missing": "x: ZL002 cannot read the file: No such file or directory",
        ".": "x: ZL002 expected a file, found a folder or a device",
        "pipe": "x: ZL002 expected a file, found a folder or a device",
        "loop": "x: ZL002 cannot read the file: Too many levels of symbolic links",
        "a\x00b": "x: ZL002 cannot read the file: the path contains the character 0",
    }
    for name, expected in cases.items():
        with pytest.raises(SpecError) as caught:
            read(tmp_path / name, "x")
        assert str(caught.value) == expected


def test_text_for_messages_is_short_and_has_no_terminal_escapes() -> None:
    assert quote_value("a\x1b[0m\u202eb") == "'a\\x1b[0m\\u202eb'"
    assert quote_value("x" * 100) == "'" + "x" * 57 + "...'"


# PyYAML knows three more line breaks.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00\x85\u2028\u2029"), max_size=20)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc_.- é", min_size=1), inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(st.text("abcxyz", min_size=1), PLAIN, min_size=1, max_size=4), st.booleans())
@example({"a": "1e5", "1e5": ["0E0", "true", "", "~", "9" * 31]}, True)
def test_written_yaml_is_read_back_unchanged(data: dict[str, Any], flow: bool) -> None:
    assert load(dump(data, default_flow_style=flow)) == data


TOKENS = ["a: ", "b", "- ", "[", "]", "{", "}", ", ", "&x ", "*x", "!t ", "<<: ", "? ", ": ", "|", ">", '"', "'", "#"]
TOKENS += ["\n", "\n  ", "---\n", "...\n", "%YAML 1.1\n", "\t", "\u2028", "1", "@", "`", "\\"]
CONTENT = st.one_of(
    st.lists(st.sampled_from(TOKENS), max_size=40).map("".join).map(str.encode),
    st.binary(max_size=100),
    st.text(max_size=60).map(lambda t: t.encode("utf-8", "surrogatepass")),
)


@given(CONTENT)
def test_any_bytes_give_a_document_or_a_spec_error(content: bytes) -> None:
    try:
        document = parse(content, "f.yaml")
    except SpecError as error:
        places = {(d.code[:3], d.location.path if d.location else "") for d in error.diagnostics}
    else:
        places = {("ZL0", "f.yaml")} if set(document.data) <= set(document.locations) else set()
    assert places == {("ZL0", "f.yaml")}


PIECES = st.sampled_from(
    [
        *"ab1-,[]{}#'\"&*!@`~<",
        " ",
        "\n",
        "\n  ",
        "\n- ",
        ": ",
        ":",
        " #",
        "---\n",
        "...\n",
        "true",
        "null",
        ".5",
        "<<: ",
    ]
)


@given(st.lists(PIECES, max_size=20).map("".join))
def test_libyaml_reads_what_it_accepts_as_pyyaml_does(text: str) -> None:
    assert _PLAIN.fullmatch(text)
    fast, errors = _parsed(text, "f", yaml.CSafeLoader)
    if not errors:
        assert _parsed(text, "f", yaml.SafeLoader) == (fast, [])


def test_a_usual_layout_is_read_by_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml, "SafeLoader", None)
    assert parse(b"table: lake.db.t\nzorder: {columns: [a, b]}\n", "f").data["zorder"] == {"columns": ["a", "b"]}
