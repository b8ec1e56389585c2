"""Which signal an exception tells of. What the handlers do is tested by the commands."""

import signal

import pytest

from zlayout.errors import CommitUnknown
from zlayout.signals import Interrupted, number_of


def raised(*errors: BaseException) -> BaseException:
    """The last error, raised while the one before it is handled, and so on."""
    before = None
    for error in errors:
        error.__context__ = before
        before = error
    return errors[-1]


@pytest.mark.parametrize(
    ("errors", "number"),
    [
        ((Interrupted(signal.SIGTERM),), signal.SIGTERM),
        ((KeyboardInterrupt(),), signal.SIGINT),
        ((Interrupted(signal.SIGTERM), RuntimeError("connection closed"), ValueError()), signal.SIGTERM),
        ((Interrupted(signal.SIGTERM), KeyboardInterrupt()), signal.SIGINT),
        ((Interrupted(signal.SIGTERM), CommitUnknown.of("ZL331", "unknown")), None),
        ((ValueError(), RuntimeError()), None),
    ],
)
def test_the_signal_behind_an_exception(errors: tuple[BaseException, ...], number: int | None) -> None:
    assert number_of(raised(*errors)) == number
