"""A deliberate defect, and what must catch it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from model.worlds import Scenario


@dataclass(frozen=True, slots=True)
class Mutant:
    """defect: one line. scenario: where it shows. kinds: the violations of which one must be found."""

    name: str
    defect: str
    scenario: Scenario
    kinds: frozenset[str] | set[str]
    installed: Callable[[], AbstractContextManager[None]]


def patched(*replacements: tuple[Any, str, Any]) -> Callable[[], AbstractContextManager[None]]:
    """Functions (owner, name, what instead) that are replaced as long as the context lasts."""

    @contextmanager
    def installed() -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, value in replacements:
                stack.enter_context(patch.object(owner, name, value))
            yield

    return installed
