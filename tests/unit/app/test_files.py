"""Files that commands write: links are kept, and a failed write changes nothing."""

import errno
import os
import sys
from pathlib import Path

import pytest

from zlayout.app.files import write_atomically, write_result
from zlayout.errors import SpecError


def test_a_link_is_kept_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    link, target = tmp_path / "plan.json", tmp_path / "kept" / "plan.json"
    link.symlink_to(target)
    for text in ("first", "second"):  # a link to no file yet, and to a file
        write_atomically(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert sorted(os.listdir(tmp_path / "kept")) == ["plan.json"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("descriptor", [1, 2])
def test_a_link_to_a_standard_stream_that_is_a_file_adds_to_it(
    descriptor: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stream = tmp_path / "stream"  # as /dev/stdout is
    stream.symlink_to(f"/proc/self/fd/{descriptor}")
    os.write(descriptor, b"before ")
    write_atomically(stream, "text")
    os.write(descriptor, b" after")
    assert stream.is_symlink()
    assert capfd.readouterr()[descriptor - 1] == "before text after"


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.ENOSPC, "free space there"), (errno.EROFS, "check the folder and its permissions")]
)
def test_the_hint_fits_the_error(number: int, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(SpecError) as raised:
        write_result(tmp_path / "x", "text", "ZL061", "the report x")
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.message, diagnostic.hint) == (f"cannot write the report x: {os.strerror(number)}", hint)
