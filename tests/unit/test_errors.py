"""What messages keep of the errors of libraries."""

import pytest

from zlayout.errors import first_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n  not found  \n\nJVM stacktrace: ...", "not found"),
        ("", "ValueError"),
        (
            "Kernel error -> Generic LocalFileSystem error\n      \x1b[31m\u21b3\x1b[0m Unable to open file /t/0\n"
            "   \x1b[31m\u21b3\x1b[0m Permission denied (os error 13)\n",
            "Kernel error -> Generic LocalFileSystem error: Unable to open file /t/0: Permission denied (os error 13)",
        ),
        ("a\nb\n\u21b3 of another error", "a"),
    ],
)
def test_the_first_line_has_the_causes_that_deltalake_puts_below_it(text: str, expected: str) -> None:
    assert first_line(ValueError(text)) == expected
