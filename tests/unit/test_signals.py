"""Which signal an exception tells of, and which signals count. What commands do then is tested with the commands."""

import os
import signal

import pytest

from zlayout.errors import CommitUnknown
from zlayout.process import Handler, Interrupted, signal_of
from zlayout.session.session import Interrupts


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
    found = signal_of(raised(*errors))
    assert (found and found.number) == number


@pytest.mark.parametrize(
    ("sent", "handled"),
    [("TERM TERM", "TERM"), ("TERM HUP", "TERM"), ("INT INT", "INT INT"), ("INT TERM", "INT TERM")],
)
def test_what_systemd_and_timeout_send_together_is_one_signal(sent: str, handled: str) -> None:
    received: list[int] = []
    handler = Handler(received.append)
    for name in sent.split():
        handler(signal.Signals[f"SIG{name}"], None)
    assert received == [signal.Signals[f"SIG{name}"] for name in handled.split()]


def test_an_ignored_signal_stays_ignored() -> None:
    """As in a background job of a script, and in a worker of Celery. pyspark installs a handler when it starts."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts(lambda: None) as interrupts:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            interrupts.arm()
            os.kill(os.getpid(), signal.SIGINT)
            assert not interrupts.requested
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
