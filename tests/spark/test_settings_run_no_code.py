"""What Hadoop would run if zlayout.yaml could name it: a script by ABFS' key provider, and a class as file system.

The same settings of the operator do run it, which shows that the libraries of the tests still read them.
"""

import json
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from support.cluster import SPARK_HOME
from support.ivy import JAVA, NotDownloaded, jars_of

from zlayout.errors import SpecError
from zlayout.spark.session import project_conf
from zlayout.spec.load import load_project

ACCOUNT = "acc.dfs.core.windows.net"
# Janino, which Spark has, compiles and runs Java without a JDK.
COMPILER = "org.codehaus.janino.SimpleCompiler"
PLANTED = "planted.Planted"
ENVIRON = {
    "ACCOUNT_KEY": "a2V5",
    "PROVIDER": "org.apache.hadoop.fs.azurebfs.services.ShellDecryptionKeyProvider",
}
# Without them, ABFS sends requests.
OFFLINE = {
    f"spark.hadoop.fs.azure.account.hns.enabled.{ACCOUNT}": "true",
    "spark.hadoop.fs.azure.io.retry.max.retries": "0",
}


def by_key_provider(folder: Path, mark: Path) -> tuple[str, dict[str, str]]:
    script = folder / "key.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\necho a2V5\n")
    script.chmod(0o755)
    return f"abfss://c@{ACCOUNT}/", {
        f"spark.hadoop.fs.azure.account.keyprovider.{ACCOUNT}": "${PROVIDER}",  # a literal name would look like a key
        "spark.hadoop.fs.azure.shellkeyprovider.script": str(script),
        f"spark.hadoop.fs.azure.account.key.{ACCOUNT}": "${ACCOUNT_KEY}",
        **OFFLINE,
    }


def by_class(folder: Path, mark: Path) -> tuple[str, dict[str, str]]:
    (folder / "planted").mkdir()
    command = ["java", "-cp", f"{SPARK_HOME}/jars/*", COMPILER, JAVA / "CompileCanary.java", "CompileCanary"]
    subprocess.run([*command, PLANTED, mark, folder / "planted" / "Planted.class"], check=True)
    return "planted:///", {"spark.hadoop.fs.planted.impl": PLANTED}


def open_location(location: str, conf: dict[str, str], folder: Path) -> str:
    """What Hadoop says when a Java process opens a location with these Spark settings."""
    classes = ":".join((str(folder), *jars_of("abfs"), f"{SPARK_HOME}/jars/*"))
    settings = [part for key, value in conf.items() if key.startswith("spark.hadoop.") for part in (key, value)]
    command = ["java", "-cp", classes, COMPILER, str(JAVA / "OpenLocation.java"), "OpenLocation", location, *settings]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120).stdout


@pytest.mark.parametrize("attack", [by_key_provider, by_class], ids=lambda attack: attack.__name__)
def test_settings_of_a_project_run_no_code(attack, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    mark = tmp_path / "ran"
    location, conf = attack(tmp_path, mark)
    catalogs = {"lake": {"format": "delta", "warehouse": f"abfss://c@{ACCOUNT}/w"}}
    (tmp_path / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": catalogs, "spark": {"conf": conf}}))
    try:
        jars_of("abfs")
    except NotDownloaded as error:
        pytest.skip(str(error))
    with suppress(SpecError):  # tests/hostile/test_spark_conf.py has the codes
        open_location(location, project_conf(load_project(tmp_path, ENVIRON), submitted=False), tmp_path)
    assert not mark.exists()
    open_location(location, {key: ENVIRON.get(value[2:-1], value) for key, value in conf.items()}, tmp_path)
    assert mark.exists(), "Hadoop does not run it any more: replace this attack by one that works"
