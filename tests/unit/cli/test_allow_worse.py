"""--detailed-exitcode: a rewrite after which queries read more bytes needs --allow-worse."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.projects import Cli

from zlayout.report.formats import REPORTERS


@pytest.fixture
def in_order(root: Path) -> Path:
    """A table of 24 files in the order of `ts`, which fit in one file of the default size."""
    for n in range(24):
        rows = pa.table({"ts": pa.array(range(1000 * n, 1000 * n + 1000), pa.int64())})
        write_deltalake(str(root / "tables" / "db" / "events"), rows, mode="append")
    Path("layouts/orders.yaml").write_text("version: 1\ntable: lake.db.events\nzorder: {columns: [ts]}\n")
    return root


@pytest.mark.usefixtures("in_order")
def test_a_rewrite_after_which_queries_read_more_has_an_exit_code_of_its_own(cli: Cli) -> None:
    assert "--allow-worse" in cli("plan", "--detailed-exitcode", code=5).err
    cli("plan", "--detailed-exitcode", "--allow-worse", code=2)
    cli("plan")


@pytest.mark.usefixtures("in_order")
def test_every_report_shows_the_bytes_and_the_warning(cli: Cli) -> None:
    options = [part for name in REPORTERS for part in ("--report", f"{name}={name}.out")]
    screen = " ".join(cli("plan", *options).out.split())
    assert (
        "warning: layouts/orders.yaml:2:1: ZL440 after the rewrite, a query for one value reads at least 24." in screen
    )
    assert "bytes read ts " in screen
    assert "note: layouts/orders.yaml:2:1: ZL441 the table fits in one file" in screen
    assert "storage the replaced" in screen
    written = {name: Path(f"{name}.out").read_text() for name in REPORTERS}
    for name in ("text", "json", "markdown", "github", "sarif", "html"):
        assert "ZL440" in written[name]
    assert "::warning file=layouts/orders.yaml,title=lake.db.events%3A ZL440," in written["github"]
    assert "| bytes read |" in written["markdown"]
    assert '"bytes_read":' in written["json"]
    assert '<td class="n worse"' in written["html"]
    assert "bytes read      ts" in written["junit"]


@pytest.mark.usefixtures("root")
def test_other_changes_exit_with_2(cli: Cli) -> None:
    cli("plan", "--detailed-exitcode", code=2)
