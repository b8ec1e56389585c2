"""The file system from which the log of a Delta table is read."""

from pathlib import Path

import pyarrow.fs as pa_fs
import pytest

from zlayout.formats.delta.read.log import is_local, log_files, table_files


@pytest.mark.parametrize("name", ["t", "a b", "100%25", "a#b?c", "ü"])
@pytest.mark.parametrize("as_uri", [False, True])
def test_a_local_log_is_read_through_arrow(name: str, as_uri: bool, tmp_path: Path) -> None:
    (tmp_path / name / "_delta_log").mkdir(parents=True)
    (tmp_path / name / "_delta_log/1.json").write_text("{}")
    location = (tmp_path / name).as_uri() + "/" if as_uri else str(tmp_path / name)
    storage = table_files(location, {})
    log = log_files(location, storage)
    assert is_local(log)
    assert not is_local(storage)
    with log.open_input_stream("_delta_log/1.json") as stream:
        assert stream.read() == b"{}"


def test_a_relative_location_is_below_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lake/t").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (found,) = log_files("./lake", table_files("./lake", {})).get_file_info(pa_fs.FileSelector(""))
    assert found.base_name == "t"


@pytest.mark.parametrize("location", ["s3://bucket/t", "memory:///t", "file://host/t"])
def test_other_logs_are_read_as_the_table(location: str) -> None:
    storage = pa_fs.LocalFileSystem()
    assert log_files(location, storage) is storage
