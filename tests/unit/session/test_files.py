"""Files that commands write: no link is followed, the mode is that of the umask, and a failed write changes nothing."""

import errno
import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from zlayout.errors import SpecError
from zlayout.session import files
from zlayout.session.files import append, write_atomically, write_result


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def test_the_file_is_replaced_and_nothing_else_is_left() -> None:
    for text in ("first", "second"):
        write_atomically(Path("plan.json"), text)
        assert Path("plan.json").read_text() == text
    assert os.listdir() == ["plan.json"]


@pytest.mark.parametrize("write", [write_atomically, append])
@pytest.mark.parametrize("target", ["../kept", "../none", "kept", "link"])
def test_a_link_is_refused_and_its_target_is_untouched(write: object, target: str, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    Path("kept").write_text("kept")
    Path("link").symlink_to(target)
    for path in (Path("link"), tmp_path / "work" / "link"):
        with pytest.raises(SpecError, match=r"ZL086 cannot write .*link: it is a symbolic link"):
            write(path, "text")  # type: ignore[operator]
    assert Path("link").is_symlink()
    assert (Path("kept").read_text(), (tmp_path / "kept").read_text()) == ("kept", "kept")
    assert sorted(os.listdir(tmp_path)) == ["kept", "work"]


@pytest.mark.parametrize("absolute", [False, True])
def test_a_folder_below_the_working_directory_must_not_be_a_link(tmp_path: Path, absolute: bool) -> None:
    (tmp_path / "outside" / "b").mkdir(parents=True)
    Path("out").symlink_to("../outside")
    for path in (Path("out/plan.json"), Path("out/b/plan.json"), Path("out/new/plan.json")):
        with pytest.raises(SpecError, match=r"ZL086 cannot write .*: the folder .*work/out is a symbolic link"):
            write_atomically(Path.cwd() / path if absolute else path, "text", make_folder=True)
    assert os.listdir(tmp_path / "outside") == ["b"]


def test_a_folder_elsewhere_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to("real")
    write_atomically(tmp_path / "linked" / "plan.json", "text")
    write_atomically(Path("../linked/other.json"), "text")
    assert sorted(os.listdir(tmp_path / "real")) == ["other.json", "plan.json"]


def test_the_folder_within_which_there_is_no_link_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "project" / "layouts").symlink_to("../outside")
    Path("named").symlink_to("../project")
    write_atomically(Path("named/a.yaml"), "text", within=Path("named"))
    assert (tmp_path / "project" / "a.yaml").read_text() == "text"
    with pytest.raises(SpecError, match="ZL086"):
        write_atomically(Path("named/layouts/a.yaml"), "text", within=Path("named"))


def test_the_working_directory_may_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to("work")
    Path("out").symlink_to("..")
    write_atomically(tmp_path / "alias" / "plan.json", "text")
    with pytest.raises(SpecError, match="ZL086"):
        write_atomically(tmp_path / "alias" / "out" / "plan.json", "text")


def test_a_link_that_appears_while_a_file_is_written_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").write_text("kept")
    real = os.fsync

    def plant(descriptor: int) -> None:
        real(descriptor)
        Path("plan.json").symlink_to("../kept")

    monkeypatch.setattr(os, "fsync", plant)
    write_atomically(Path("plan.json"), "text")
    assert not Path("plan.json").is_symlink()
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_link_with_the_name_of_the_new_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "known")
    Path(".zlayout-known.part").symlink_to("../kept")
    with pytest.raises(FileExistsError):
        write_atomically(Path("plan.json"), "text")
    assert os.listdir(tmp_path) == ["work"]


@pytest.mark.parametrize(("mask", "existing", "expected"), [(0o022, None, 0o644), (0o077, None, 0o600),
                         (0o022, 0o600, 0o600), (0o022, 0o666, 0o644), (0o027, 0o755, 0o640)])  # fmt: skip
def test_the_mode_is_that_of_the_umask_and_a_private_file_stays_private(
    mask: int, existing: int | None, expected: int
) -> None:
    path = Path("plan.json")
    if existing is not None:
        path.touch()
        path.chmod(existing)
    before = os.umask(mask)
    try:
        write_atomically(path, "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("write", [write_atomically, append])
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/stderr", "/proc/self/fd/1", "/dev/fd/2"])
def test_a_standard_stream_that_is_a_file_is_added_to(
    write: object, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    descriptor = 1 if name[-1] in "1t" else 2
    os.write(descriptor, b"before ")
    write(Path(name), "text")  # type: ignore[operator]
    os.write(descriptor, b" after")
    assert capfd.readouterr()[descriptor - 1] == "before text after"


def test_a_pipe_is_written_to() -> None:
    os.mkfifo("pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text()))
    reader.start()
    write_atomically(Path("pipe"), "text")
    reader.join()
    assert read == ["text"]
    assert stat.S_ISFIFO(os.lstat("pipe").st_mode)


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.ENOSPC, "free space there"), (errno.EROFS, "check the folder and its permissions")]
)
def test_the_hint_fits_the_error_and_the_old_file_is_kept(
    number: int, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    Path("x").write_text("old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SpecError) as raised:
        write_result(Path("x"), "text", "ZL061", "the report x")
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.message, diagnostic.hint) == (f"cannot write the report x: {os.strerror(number)}", hint)
    assert (os.listdir(), Path("x").read_text()) == (["x"], "old")
