"""The allocator keeps what was freed. Each case in a process of its own: the setting is the whole process's."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the allocator is glibc's")

# Page faults of taking 64 MB for the second time: 16,384 pages where the system has to clear them again.
AGAIN = """
import resource
{before}
taken = bytearray(64 << 20)
del taken
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
taken = bytearray(64 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)
"""
KEEP = "from zlayout.cli.memory import keep_freed_memory; keep_freed_memory()"


def said(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_memory_that_was_freed_is_taken_again_without_a_page_fault() -> None:
    assert int(said(AGAIN.format(before=""))) > 10_000
    assert int(said(AGAIN.format(before=KEEP))) < 1_000


def test_arrow_shares_what_is_kept() -> None:
    arrow = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    assert said(f"{KEEP}\n{arrow}") == "system"


def test_an_allocator_that_the_user_chose_stays() -> None:
    chosen = "import os; os.environ['ARROW_DEFAULT_MEMORY_POOL'] = 'mimalloc'"
    assert said(f"{chosen}\n{KEEP}\nprint(os.environ['ARROW_DEFAULT_MEMORY_POOL'])") == "mimalloc"
