import json
import os
import re

import pytest

from zlayout.formats.delta.write.transaction import user_metadata
from zlayout.spark.session import (
    MIB,
    MIN_MEMORY,
    SESSION_CONF,
    SQL_CONF,
    available,
    local_memory,
    project_conf,
)
from zlayout.spec.model import Project, SparkConfig


@pytest.fixture
def machine() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("name", "text"), [("memory.max", "1073741824\n"), ("memory/memory.limit_in_bytes", "1073741824\n")]
)
def test_a_container_has_its_limit(tmp_path, name, text):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert available(tmp_path) == 1024 * MIB


@pytest.mark.parametrize("text", ["max\n", "9223372036854771712\n", ""])
def test_without_a_limit_it_is_the_memory_of_the_machine(tmp_path, machine, text):
    (tmp_path / "memory.max").write_text(text)
    assert available(tmp_path) == machine


def test_spark_gets_half_of_it(machine, monkeypatch, tmp_path):
    monkeypatch.setattr("zlayout.spark.session._CONTROL_GROUPS", tmp_path)
    assert re.fullmatch(r"\d+m", local_memory())
    (tmp_path / "memory.max").write_text(str(8 * 1024 * MIB))
    assert local_memory() == f"{min(8 * 1024, machine // MIB) // 2}m"
    (tmp_path / "memory.max").write_text("1000")
    assert local_memory() == f"{MIN_MEMORY // MIB}m"


def test_no_setting_of_a_project_changes_what_a_sql_text_means(tmp_path):
    conf = dict.fromkeys(SQL_CONF, "true")
    project = Project(tmp_path, {}, SparkConfig("local[1]", conf), ())
    for submitted in (False, True):
        assert SQL_CONF.items() <= project_conf(project, submitted=submitted).items()
    assert SQL_CONF.items() <= SESSION_CONF.items()
    assert set(SQL_CONF.values()) == {"false"}


def test_commit_properties_are_the_same_after_spark_has_replaced_variables():
    properties = {"title": "${env:CANARY} ${x} $5 {}"}
    text = user_metadata("r", properties)
    assert "${" not in text
    assert json.loads(text) == {"zlayout.run": "r", **properties}
