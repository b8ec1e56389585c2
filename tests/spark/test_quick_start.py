"""Starts of Spark with one cache folder: without an archive of classes, with one, and with a changed one."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import json, sys
from pathlib import Path
from zlayout.spark.jars import CLASS_PATH, JAVA_OPTIONS
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Project, SparkConfig

root = Path(sys.argv[1])
catalogs = {
    "lake": CatalogConfig("lake", "delta", "path", {"warehouse": str(root)}, None),
    "ice": CatalogConfig("ice", "iceberg", "sql", {"uri": f"sqlite:///{root}/c.db", "warehouse": str(root)}, None),
}
with SparkRuntime(Project(root, catalogs, SparkConfig("local[1]", {}), ()), brief=True) as runtime:
    spark = runtime.session
    spark.range(100).write.format("delta").mode("overwrite").save(f"{root}/delta")
    spark.sql("create namespace if not exists ice.db")
    spark.range(100).writeTo("ice.db.t").using("iceberg").createOrReplace()
    rows = spark.read.format("delta").load(f"{root}/delta").count() + spark.table("ice.db.t").count()
    conf = spark.sparkContext.getConf()
    answer = {"rows": rows, "class_path": conf.get(CLASS_PATH, ""), "options": conf.get(JAVA_OPTIONS, "")}
print(json.dumps(answer))
"""


@pytest.mark.long
def test_a_start_uses_what_earlier_ones_left(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = start(tmp_path, cache)
    assert first["rows"] == 200
    assert "delta-spark" in first["class_path"]
    assert "-XX:ArchiveClassesAtExit=" in first["options"]

    complete_archive(cache)  # the JVM writes it after our process has ended
    second = start(tmp_path, cache)
    assert second["rows"] == 200
    [archive] = (cache / "zlayout" / "spark").glob("*.jsa")
    assert f"-XX:SharedArchiveFile={archive}" in second["options"]

    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.unlink()  # Java has written it read-only
    archive.write_bytes(content)
    third = start(tmp_path, cache)
    assert third["rows"] == 200
    assert "-XX:SharedArchiveFile=" not in third["options"]
    assert not archive.exists()


def start(root: Path, cache: Path) -> dict[str, str]:
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", SCRIPT, str(root / "tables")]
    (root / "tables").mkdir(exist_ok=True)
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [answer] = done.stdout.splitlines()  # nothing that Java says of its archive is among it
    return dict(json.loads(answer))


def complete_archive(cache: Path) -> None:
    for _ in range(600):
        found = list((cache / "zlayout" / "spark").glob("*.jsa.tmp"))
        if found and found[0].stat().st_size and found[0].read_bytes()[:4] != bytes(4):
            return
        time.sleep(0.5)
    raise AssertionError("the JVM wrote no archive")
