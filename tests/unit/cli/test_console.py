import io

import pytest

from zlayout.cli.console import Color, wants_color


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
