"""--only-decay: repair what other writers did, and leave layouts that were not applied yet to a reviewed plan."""

from pathlib import Path

import pytest
from contract import make_rows
from support.projects import LAYOUT, Cli, Scripted

LEFT_OUT = "ZL452 left out 1 table not laid out as declared yet: lake.db.orders"


def test_only_decay_is_applied(memory: Scripted, cli: Cli) -> None:
    assert LEFT_OUT in cli("apply", "--auto-approve", "--only-decay").out
    assert "as declared; 1 commit" in cli("apply", "--auto-approve").out
    table = memory._catalog.load(("db", "orders"))
    table.append(make_rows(200, start=1000), files=4)
    table.append(make_rows(200, start=1000), files=4)
    shown = cli("plan", "--only-decay")
    assert LEFT_OUT not in shown.out
    assert "To apply: zlayout apply --only-decay" in shown.err
    assert "as declared; 1 commit" in cli("apply", "--auto-approve", "--only-decay").out
    Path("layouts/orders.yaml").write_text(LAYOUT.replace("1KiB", "4000B"))
    changed = cli("apply", "--auto-approve", "--only-decay").out
    assert LEFT_OUT in changed
    assert "1 commit" not in changed


@pytest.mark.usefixtures("memory")
def test_no_budget_is_spent_on_what_is_left_out(cli: Cli) -> None:
    assert LEFT_OUT in cli("apply", "--auto-approve", "--only-decay", "--max-rewrite-bytes", "1B").out


@pytest.mark.usefixtures("memory")
def test_a_plan_file_says_itself_what_it_changes(cli: Cli) -> None:
    cli("plan", "--out", "plan.json")
    assert "ZL085 --only-decay cannot change" in cli("apply", "plan.json", "--only-decay", "--auto-approve", code=1).err
