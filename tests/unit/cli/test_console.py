import io
from pathlib import Path

import pytest

from zlayout.cli import terminal as cli_terminal
from zlayout.cli.console import Color, Console, wants_color
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, SparkConfig


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("color", "environ", "terminal", "pipe"),
    [
        (Color.AUTO, {}, True, False),
        (Color.AUTO, {"TERM": "dumb"}, False, False),
        (Color.AUTO, {"NO_COLOR": "1"}, False, False),
        (Color.AUTO, {"NO_COLOR": ""}, True, False),
        (Color.AUTO, {"FORCE_COLOR": "1"}, True, True),
        (Color.AUTO, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        (Color.ALWAYS, {"NO_COLOR": "1"}, True, True),
        (Color.NEVER, {"FORCE_COLOR": "1"}, False, False),
    ],
)
def test_flag_then_no_color_then_force_color_then_terminal(
    color: Color, environ: dict[str, str], terminal: bool, pipe: bool
) -> None:
    assert wants_color(color, Terminal(), environ) is terminal
    assert wants_color(color, io.StringIO(), environ) is pipe


def test_sparks_log_is_named_where_it_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runtime = SparkRuntime(Project(Path(), {}, SparkConfig(), ()))
    terminal = cli_terminal.Terminal(Console())
    terminal.name_log(runtime.log_path)
    assert capsys.readouterr().err == ""
    runtime.log_path = tmp_path / "spark.log"
    runtime.log_path.write_text("what the JVM said")
    terminal.name_log(runtime.log_path)
    assert capsys.readouterr().err == f"Spark's log: {tmp_path / 'spark.log'}\n"
    runtime.discard_log()
    assert list(tmp_path.iterdir()) == []
    terminal.name_log(runtime.log_path)
    assert capsys.readouterr().err == ""
