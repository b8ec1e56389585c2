from dataclasses import replace

import pytest
from unit.report.sample_plans import BROKEN, EVENTS, ORDERS, REFUSED, UNCHANGED, group

from zlayout.planner.model import ChangeClustering, Reason, TablePlan
from zlayout.report.words import money, number, printable, reasons_text, same_size, setting, share, state
from zlayout.text import size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (128 * 2**20, "128 MiB"),
        (1000 * 2**20, "1000 MiB"), (1_319_413_953_331, "1.2 TiB"), (2**60, "1024 PiB"),
        (1_023_590, "1000 KiB"), (2**20 - 1, "1 MiB"), (2**30 - 1, "1 GiB"), (2**30 - 2**20, "1023 MiB"),
    ],
)  # fmt: skip
def test_size(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (7.26, "7.3"), (99.96, "100"), (9610.4, "9,610"), (0.0, "0"), (0.03, "<0.1"), (0.051, "0.1")],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0%"), (0.0123, "1.2%"), (0.5, "50%"), (1.0, "100%"), (12.3, "1230%"), (0.0997, "10%"),
        (0.9996, "99.9%"), (0.995, "99.5%"), (0.994, "99%"), (1.004, "100.4%"), (1.0001, "100.1%"),
        (1 - 1e-12, "100%"), (0.00004, "<0.1%"),
    ],
)  # fmt: skip
def test_share(value: float, text: str) -> None:
    assert share(value) == text


def test_a_size_after_a_rewrite_is_marked() -> None:
    assert (same_size("1 GiB..2 GiB"), same_size("")) == ("~1 GiB..2 GiB", "")


@pytest.mark.parametrize(("value", "text"), [(0.0, "0.00"), (0.004, "<0.01"), (0.005, "0.01"), (1234.5, "1,234.50")])
def test_money(value: float, text: str) -> None:
    assert money(value) == text


def test_settings_read_as_in_a_spec() -> None:
    assert setting(["a", {"name": "b", "weight": 2.0}]) == "[a, {name: b, weight: 2}]"
    assert [setting(v) for v in (None, True, False, 1000, "kd")] == ["none", "true", "false", "1000", "kd"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a ##[group]b", "a #\ufffd[group]b"),
        ("a##vso[task.setvariable variable=x]y", "a#\ufffdvso[task.setvariable variable=x]y"),
        ("##VSO[task.complete]", "#\ufffdVSO[task.complete]"),
        ("###vso[a]", "##\ufffdvso[a]"),
        ("x ##teamcity[setParameter]", "x #\ufffdteamcity[setParameter]"),
        ("section_start:1:x\r\x1b[0Kh", "section_start:1:x\ufffd\ufffd[0Kh"),
        ("::add-mask::x", ":\ufffdadd-mask::x"),
        ("layout ::error::x", "layout :\ufffderror::x"),
        ("http://[::1]:8181/a::b ## [c]", "http://[::1]:8181/a::b ## [c]"),
    ],
)
def test_no_name_is_a_command_to_the_log_of_a_workflow(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (ORDERS, "drift"),
        (replace(ORDERS, drift=()), "drift"),
        (replace(ORDERS, drift=(), actions=(group("", Reason.NOT_LAID_OUT),)), "first layout"),
        (replace(ORDERS, drift=(), actions=(group("", Reason.PARTITION_NOT_LAID_OUT),)), "decay"),
        (replace(ORDERS, drift=(), actions=(group("", Reason.SMALL_FILES),)), "decay"),
        (replace(ORDERS, drift=(), actions=(group("", Reason.BOUNDS_TRUNCATED),)), "change"),
        (replace(EVENTS, actions=EVENTS.actions[1:2]), "drift"),
        (replace(EVENTS, actions=EVENTS.actions[:1]), "change"),
        (replace(EVENTS, actions=(ChangeClustering(("a",), ("b",), None),)), "drift"),
        (UNCHANGED, "as declared"),
        (replace(UNCHANGED, selects_nothing=True), "matches no partition"),
        (REFUSED, "refused"),
        (BROKEN, "error"),
    ],
)
def test_the_state_says_why_a_table_changes(table: TablePlan, words: str) -> None:
    assert state(table) == words


def test_reasons_count_partitions_and_not_their_groups() -> None:
    first, other = EVENTS.groups[0], EVENTS.groups[-1]
    assert first.reason != other.reason
    text = reasons_text((first, replace(first, id="second"), other))
    assert text == "not laid out yet (1 partition), decayed (1 partition)"
