"""Three starts of Spark with one cache folder: by Ivy, from the list of jars, and with the archive of classes."""

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
from zlayout.spark.quick_start import CLASS_PATH, JAVA_OPTIONS
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
    first, second = start(tmp_path, cache), start(tmp_path, cache)
    assert first["rows"] == second["rows"] == 200
    assert "delta-spark" not in first["class_path"]
    assert "delta-spark" in second["class_path"]
    assert "-XX:ArchiveClassesAtExit=" in second["options"]

    complete_archive(cache)  # the JVM writes it after our process has ended
    third = start(tmp_path, cache)
    assert third["rows"] == 200
    assert "-XX:SharedArchiveFile=" in third["options"]
    [archive] = (cache / "zlayout" / "spark").glob("*.jsa")
    assert str(archive) in third["options"]


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
