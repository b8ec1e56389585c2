"""Maintenance windows: what is inside of them, when they end, and when the next one begins."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from zlayout.spec.model import Maintenance, duration_of, hot_after, maintenance_of

BERLIN = ZoneInfo("Europe/Berlin")


def windows(*texts: str) -> Maintenance:
    return maintenance_of({"windows": list(texts), "timezone": "Europe/Berlin"})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("texts", "now", "end"),
    [
        (["22:00-05:00"], "2026-11-26 21:59", None),
        (["22:00-05:00"], "2026-11-26 22:00", "2026-11-27 05:00"),
        (["22:00-05:00"], "2026-11-27 04:59", "2026-11-27 05:00"),
        (["22:00-05:00"], "2026-11-27 05:00", None),
        (["12:00-13:30"], "2026-11-27 12:30", "2026-11-27 13:30"),
        (["Fri 22:00-05:00"], "2026-11-28 04:00", "2026-11-28 05:00"),  # Saturday: it began on Friday
        (["Fri 22:00-05:00"], "2026-11-27 04:00", None),
        (["Mon-Fri 22:00-05:00", "Sat,Sun 00:00-24:00"], "2026-11-27 23:00", "2026-11-30 00:00"),
        (["Sat-Mon 10:00-11:00"], "2026-11-30 10:30", "2026-11-30 11:00"),
        (["Sat-Mon 10:00-11:00"], "2026-12-01 10:30", None),
        (["20:00-22:00", "21:00-23:00"], "2026-11-27 20:00", "2026-11-27 23:00"),
        (["01:00-04:00"], "2026-10-25 01:30", "2026-10-25 04:00"),  # the clocks are set back at 3
        (["01:00-04:00"], "2027-03-28 01:30", "2027-03-28 04:00"),  # and forward at 2
    ],
)
def test_the_end_of_the_window(texts: list[str], now: str, end: str | None) -> None:
    assert windows(*texts).end(at(now)) == (at(end) if end else None)


def test_a_night_in_which_the_clocks_change_is_an_hour_shorter_or_longer() -> None:
    night = windows("01:00-04:00")
    for day, hours in (("2026-10-25", 4), ("2026-10-26", 3), ("2027-03-28", 2)):
        start = at(f"{day} 01:00")
        end = night.end(start)
        assert end.timestamp() - start.timestamp() == 3600 * hours


def test_windows_without_a_gap_have_no_early_end() -> None:
    end = windows("00:00-24:00").end(at("2026-11-27 12:00"))
    assert end is not None
    assert end > at("2026-11-27 12:00") + timedelta(7)


@pytest.mark.parametrize(
    ("texts", "now", "start"),
    [
        (["22:00-05:00"], "2026-11-26 21:59", "2026-11-26 22:00"),
        (["22:00-05:00"], "2026-11-26 22:00", "2026-11-27 22:00"),
        (["Mon 22:00-05:00"], "2026-11-24 12:00", "2026-11-30 22:00"),
    ],
)
def test_the_next_window(texts: list[str], now: str, start: str) -> None:
    assert windows(*texts).next_start(at(now)) == at(start)


def test_the_default_time_zone_is_utc() -> None:
    found = maintenance_of({"windows": ["22:00-23:00"]}).end(datetime.fromisoformat("2026-11-26T22:30:00+00:00"))
    assert found == datetime.fromisoformat("2026-11-26T23:00:00+00:00")


@pytest.mark.parametrize(
    "text",
    [
        "22-05",
        "25:00-26:00",
        "24:00-05:00",
        "10:00-24:30",
        "10:00-10:00",
        "Mo 22:00-05:00",
        "Mon,22:00-05:00",
        "",
        "Mon",
    ],
)
def test_other_texts_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match=r"windows\[1\]"):
        windows("22:00-05:00", text)


@pytest.mark.parametrize("name", ["Berlin", "Europe", "../../etc/passwd", "/etc/localtime", "Europe/Berlin\x00"])
def test_an_unknown_time_zone_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="timezone"):
        maintenance_of({"windows": ["22:00-05:00"], "timezone": name})


@pytest.mark.parametrize(("text", "minutes"), [("90m", 90), ("1h", 60), ("2d", 2880), ("0m", 0)])
def test_durations(text: str, minutes: int) -> None:
    assert duration_of(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "1", "h", "1.5h", "-1h", "1 h", "1s", "1h30m", "123456m", "١h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="avoid_hot"):
        duration_of(text)


def test_a_write_since_then_makes_a_partition_hot() -> None:
    now = datetime(2026, 11, 26, 12, tzinfo=UTC)
    declared = maintenance_of({"avoid_hot": "2h"})
    at_ten = int(datetime(2026, 11, 26, 10, tzinfo=UTC).timestamp() * 1000)
    assert hot_after(None, declared, now) == at_ten
    assert hot_after(timedelta(hours=1), declared, now) == at_ten + 3_600_000
    assert hot_after(timedelta(0), declared, now) is None
    assert hot_after(None, None, now) is None
    assert hot_after(None, maintenance_of({"windows": ["22:00-05:00"]}), now) is None


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("Sun 02:59-03:00", "2027-03-28 03:00", "2027-03-28 03:01"),
        ("Sun 02:30-03:30", "2027-03-28 03:00", "2027-03-28 03:30"),
        ("Sun 02:10-02:25", "2027-03-28 03:00", "2027-03-28 03:15"),
        ("Sun 02:00-03:00", "2027-03-28 03:00", "2027-03-28 04:00"),
        ("Sun 01:30-02:30", "2027-03-28 01:30", "2027-03-28 03:30"),
        ("Sun 03:00-03:01", "2027-03-28 03:00", "2027-03-28 03:01"),
    ],
)
def test_a_window_that_begins_while_clocks_are_set_forward_opens_and_is_announced(
    text: str, start: str, end: str
) -> None:
    found = windows(text)
    assert found.next_start(at("2027-03-27 12:00")) == at(start)
    assert found.next_start(at("2027-03-27 12:00")).strftime("%H:%M") == start[-5:]
    assert found.end(at(start)) == at(end)
    assert found.end(at(end)) is None
