"""Settings of the process before numpy and Arrow are loaded, mostly in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from zlayout.process import M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, MIB, has_slow_compress, keep_freed_memory, tune_process

glibc = pytest.mark.skipif(os.confstr_names.get("CS_GNU_LIBC_VERSION") is None, reason="for glibc's allocator")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is tuned")

ARROW, NUMPY = "ARROW_DEFAULT_MEMORY_POOL", "NPY_DISABLE_CPU_FEATURES"
OF_TUNING = (ARROW, NUMPY, "NPY_ENABLE_CPU_FEATURES", "GLIBC_TUNABLES")
TUNE = "import zlayout.process as tuning, os; tuning.tune_process()"
CPU = "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nflags\t\t: sse2 avx2 {flags}\n\nprocessor\t: 1\n"
ZEN_4 = CPU.format(vendor="AuthenticAMD", family="25", flags="avx512f avx512vl")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing of what is tuned is in the environment, and what is set meanwhile goes."""
    for name in (*OF_TUNING, *(name for name in os.environ if name.startswith("MALLOC_"))):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return monkeypatch


def said(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


# Page faults of taking 16 MB for the second time: that many are 4,096 pages, which the system would clear again.
AGAIN = f"""
import resource
{TUNE}
taken = bytearray(16 << 20)
del taken
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
taken = bytearray(16 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)
"""
COMMAND = """
from contextlib import suppress
from zlayout.cli.main import main
with suppress(SystemExit):
    main(["--version"])
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""
KEPT = f"""
import pathlib
def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
{TUNE}
taken = bytearray(64 << 20)
above = bytearray(1 << 20)  # what is in use above it keeps the heap from shrinking
del taken
kept = resident()
tuning.give_back_freed_memory()
print(kept - resident())
"""


@glibc
@pytest.mark.usefixtures("bare")
def test_freed_memory_is_reused_without_a_page_fault() -> None:
    assert int(said(AGAIN)) < 400


@glibc
@pytest.mark.usefixtures("bare")
def test_what_is_kept_is_given_back_when_asked() -> None:
    assert int(said(KEPT)) > 60 * MIB


@glibc
@pytest.mark.usefixtures("bare")
def test_the_command_is_tuned() -> None:
    """And Arrow shares what is kept."""
    assert said(COMMAND).splitlines()[-1] == "system"


@pytest.mark.parametrize("most", [2048 * MIB, 32 * MIB, 0])
@pytest.mark.usefixtures("bare")
def test_an_older_allocator_keeps_less_or_stays_as_it_is(most: int) -> None:
    """glibc refuses what is too large for it by 0."""
    taken: dict[int, int] = {}

    def mallopt(key: int, value: int) -> int:
        if key == M_MMAP_THRESHOLD and value > most:
            return 0
        taken[key] = value
        return 1

    keep_freed_memory(SimpleNamespace(mallopt=mallopt))
    assert taken.get(M_MMAP_THRESHOLD) == ({2048 * MIB: 1024 * MIB, 32 * MIB: 32 * MIB}.get(most))
    assert (M_TRIM_THRESHOLD in taken) is (most > 0)
    assert (os.environ.get(ARROW) == "system") is (most > 0)


@pytest.mark.usefixtures("bare")
def test_a_c_library_without_the_setting_is_left_alone() -> None:
    keep_freed_memory(SimpleNamespace())
    assert ARROW not in os.environ


@pytest.mark.parametrize(
    ("name", "value"),
    [(ARROW, "mimalloc"), (NUMPY, ""), ("MALLOC_ARENA_MAX", "2"), ("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")],
)
def test_what_the_user_chose_stays(bare: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str) -> None:
    calls: list[object] = []
    bare.setattr("zlayout.process._c_library", lambda: SimpleNamespace(mallopt=lambda *given: calls.append(given) or 1))
    (tmp_path / "cpuinfo").write_text(ZEN_4)
    bare.setattr("zlayout.process.CPU_INFO", tmp_path / "cpuinfo")
    bare.setenv(name, value)
    tune_process()
    assert os.environ[name] == value
    assert bool(calls) is (name in (ARROW, NUMPY))


def test_numpy_gets_at_most_one_setting(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It cannot be imported where both are set."""
    (tmp_path / "cpuinfo").write_text(ZEN_4)
    bare.setattr("zlayout.process.CPU_INFO", tmp_path / "cpuinfo")
    bare.setenv("NPY_ENABLE_CPU_FEATURES", "X86_V3")
    tune_process()
    assert NUMPY not in os.environ


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
    bare: pytest.MonkeyPatch, tmp_path: Path, vendor: str, family: str, flags: str, slow: bool
) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(CPU.format(vendor=vendor, family=family, flags=flags))
    assert has_slow_compress(info) is slow
    bare.setattr("zlayout.process.CPU_INFO", info)
    tune_process()
    assert (NUMPY in os.environ) is slow


def test_numpy_loads_with_the_setting(bare: pytest.MonkeyPatch) -> None:
    bare.setenv(NUMPY, "X86_V4 AVX512_ICL AVX512_SPR")
    assert said("import numpy; print(numpy.sort(numpy.array([2, 1])).tolist())") == "[1, 2]"


def test_a_system_that_does_not_describe_its_cpu_is_left_alone(tmp_path: Path) -> None:
    assert not has_slow_compress(tmp_path / "missing")


def test_a_command_rarely_searches_for_garbage() -> None:
    code = "import atexit, gc; atexit.register(lambda: print(sum(one['collections'] for one in gc.get_stats()) < 30))\n"
    assert said(code + 'from zlayout.cli.main import main; main(["--help"])').splitlines()[-1] == "True"


def test_a_command_searches_for_no_garbage_at_its_end() -> None:
    code = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
    assert said(code + 'from zlayout.cli.main import main; main(["--version"])').splitlines()[-1] == "True"
