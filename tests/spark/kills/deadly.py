"""Lets something be killed at a named point of a run: before a function, after it, or while it works."""

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

# Kill before the call, after it returned, or inside it, so many seconds after it began or when a new file appears.
Moment = Literal["before", "after", "new file"] | float
Targets = tuple[tuple[Any, str], ...]  # functions: the module or class that has each, and its name there


def install(targets: Targets, moment: Moment, at_call: int, kill: Callable[[], None], folder: Path) -> None:
    """Replace each of the functions by one that kills. folder: where new files of the table appear."""
    for owner, name in targets:
        setattr(owner, name, _deadly(getattr(owner, name), moment, at_call, kill, folder))


def _deadly(
    call: Callable[..., Any], moment: Moment, at_call: int, kill: Callable[[], None], folder: Path
) -> Callable[..., Any]:
    calls = 0

    @functools.wraps(call)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != at_call:
            return call(*arguments, **named)
        if moment == "before":
            kill()
        elif moment == "new file":
            threading.Thread(target=_kill_at_new_file, args=(folder, _files(folder), kill), daemon=True).start()
        elif moment != "after":
            threading.Timer(float(moment), kill).start()
        result = call(*arguments, **named)
        if moment == "after":
            kill()
        return result

    return wrapped


def _kill_at_new_file(folder: Path, before: set[Path], kill: Callable[[], None]) -> None:
    while _files(folder) <= before:
        time.sleep(0.005)
    kill()


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts}
