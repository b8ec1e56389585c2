"""Check schedules in the form of crontab, and convert them to the form of Quartz and AWS."""

from __future__ import annotations

import re

from zlayout.errors import SpecError
from zlayout.message_text import quote_value

_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


def fields(schedule: str) -> list[str]:
    """Return minute, hour, day, month and day of the week of a schedule. Raises SpecError ZL080."""
    found = schedule.split()
    if len(found) != 5 or not all(re.fullmatch(r"[A-Za-z0-9*,/-]+", field) for field in found):
        raise refused(f"expected five fields as in crontab, found {quote_value(schedule)}", "use '17 2 * * *'")
    return found


def quartz_fields(schedule: str) -> tuple[str, str, str, str, str]:
    """Return the fields as Quartz and AWS expect them.

    Days of the week have names. Of the fields for the day of the month and of the week, the one that is not used is ?.

    Raises:
        SpecError: ZL080, the schedule is invalid, or Quartz has no form for it.
    """
    minute, hour, day, month, weekday = fields(schedule)
    if (day != "*" and weekday != "*") or "/" in weekday:
        hint = "write one job for the days of the month, and another for those of the week"
        raise refused("expected either days of the month or days of the week, without steps", hint)
    named = re.sub(r"[0-7]", lambda digit: _DAYS[int(digit[0])], weekday)
    return minute, hour, "?" if weekday != "*" else day, month, "?" if weekday == "*" else named


def refused(message: str, hint: str) -> SpecError:
    """Return the error ZL080, about the options of a job."""
    return SpecError.of("ZL080", message, hint=hint)
