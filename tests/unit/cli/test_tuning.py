"""What the process is told before numpy and Arrow are loaded, mostly in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zlayout.cli.tuning import slow_compress

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is tuned")

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
TUNE = "import zlayout.cli.tuning as tuning, os; tuning.tune_process()"
CPU = "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nflags\t\t: sse2 avx2 {flags}\n\nprocessor\t: 1\n"


CHOSEN = ("ARROW_DEFAULT_MEMORY_POOL", "NPY_DISABLE_CPU_FEATURES")


def said(code: str) -> str:
    unset = {name: value for name, value in os.environ.items() if name not in CHOSEN}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=unset)
    return done.stdout.strip()


def test_memory_that_was_freed_is_taken_again_without_a_page_fault() -> None:
    assert int(said(AGAIN.format(before=""))) > 10_000
    assert int(said(AGAIN.format(before=TUNE))) < 1_000


KEPT = """
import os, pathlib
def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
{before}
taken = bytearray(64 << 20)
above = bytearray(1 << 20)  # what is in use above it keeps the heap from shrinking
del taken
kept = resident()
tuning.give_back_freed_memory()
print(kept - resident())
"""


def test_what_is_kept_is_given_back_when_asked() -> None:
    assert int(said(KEPT.format(before=TUNE))) > 60 << 20


def test_arrow_shares_what_is_kept() -> None:
    arrow = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    assert said(f"{TUNE}\n{arrow}") == "system"


@pytest.mark.parametrize("name", CHOSEN)
def test_what_the_user_chose_stays(name: str) -> None:
    assert said(f"import os; os.environ[{name!r}] = 'mine'\n{TUNE}\nprint(os.environ[{name!r}])") == "mine"


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "slow"),
    [
        ("AuthenticAMD", "25", "avx512f avx512vl", True),
        ("AuthenticAMD", "25", "", False),  # Zen 3
        ("AuthenticAMD", "26", "avx512f", False),  # Zen 5
        ("GenuineIntel", "6", "avx512f", False),
    ],
)
def test_the_sort_that_is_slow_on_one_kind_of_cpu_is_left_out_there(
    tmp_path: Path, vendor: str, family: str, flags: str, slow: bool
) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(CPU.format(vendor=vendor, family=family, flags=flags))
    assert slow_compress(info) is slow
    told = f"{TUNE.replace('; ', f'; from pathlib import Path; tuning.CPU_INFO = Path({str(info)!r}); ')}"
    assert bool(said(f"{told}\nprint(os.environ.get('NPY_DISABLE_CPU_FEATURES', ''))")) is slow


def test_a_system_that_tells_nothing_of_its_cpu_is_left_alone(tmp_path: Path) -> None:
    assert not slow_compress(tmp_path / "missing")
