"""The entry point of the command line. It turns errors into messages and exit codes."""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

try:
    from zlayout.process import Interrupted, exit_code, interrupting, signal_of, tune_process
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    sys.exit(128 + signal.SIGINT)

USAGE = 64
OUTPUT_LOST = 1
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}  # of a write to stdout


def main(arguments: Sequence[str] | None = None) -> None:
    """Run zlayout and exit: 0 ok, 1 error, 2 changes, 3 refused, 4 partly refused, 5 worse, 64 usage.

    After a signal, the exit code is 128 plus its number: 130 for Ctrl-C, 143 for SIGTERM.
    """
    try:
        with interrupting():
            code = _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt as error:  # while modules are imported
        interrupted = signal_of(error) or Interrupted(signal.SIGINT)
        print(interrupted, file=sys.stderr)
        code = exit_code(interrupted.number)
    _exit_at_once_if_waiting(code)
    gc.freeze()  # at its end, Python would search all objects for garbage, a fifth of the time of a small plan
    sys.exit(code)


def _exit_at_once_if_waiting(code: int) -> None:
    """End the process at once if a thread still waits for a service that does not answer."""
    # If its import was interrupted, no thread reads, and to import it again may fail.
    reads = sys.modules.get("zlayout.session.concurrent_reads")
    if reads is None or not reads.is_waiting():
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError):  # closed, because its reader has ended
            try:
                stream.flush()
            except OSError:  # the end of the output is lost
                code = code or OUTPUT_LOST
    os._exit(code)


def _run(arguments: Sequence[str]) -> int:
    tune_process()
    from zlayout.cli.console import print_logs

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the encoding of the terminal lacks must not raise an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    print_logs()
    return run(arguments)


def run(arguments: Sequence[str]) -> int:
    """Run zlayout with these arguments and return the exit code."""
    import typer

    from zlayout.cli.app import app
    from zlayout.cli.console import Console
    from zlayout.errors import Diagnostic, Location, NotApproved, ZlayoutError

    # typer does not export the base class of usage errors. It is the first base of BadParameter in every version.
    usage_error: type[typer.BadParameter] = typer.BadParameter.__mro__[1]
    try:
        program = app.with_command(arguments[0]) if arguments else app
        return program(args=list(arguments), prog_name="zlayout", standalone_mode=False) or 0
    except usage_error as error:
        error.show()
        return USAGE
    except NotApproved as answer:
        return answer.exit_code
    except ZlayoutError as error:
        console = Console()
        for diagnostic in error.diagnostics:
            console.diagnose(diagnostic)
        return error.exit_code
    except BrokenPipeError:
        # The reader of stdout has ended (`| head`), so nothing can be written.
        sys.stderr.close()
        return 1
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename is None and error.errno in _WRITE_ERRORS:
            hint = "free space on the disk, or redirect the output to another one"
            Console().diagnose(Diagnostic("ZL083", f"the output cannot be written: {reason}", hint=hint))
        else:
            # The system does not accept a path in an option or setting, for example because it is too long.
            location = None if error.filename is None else Location(str(error.filename))
            Console().diagnose(Diagnostic("ZL002", f"cannot be used: {reason}", location=location))
        return 1
    except (KeyboardInterrupt, typer.Abort) as error:
        interrupted = signal_of(error) or Interrupted(signal.SIGINT)
        Console().say(str(interrupted), "error")
        return exit_code(interrupted.number)
