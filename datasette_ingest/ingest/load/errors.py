"""Why a line, or what follows in a file, is not loaded."""

from __future__ import annotations


class Refused(Exception):
    """One line (or row) cannot be a request. `str()` is the reason, without the line's number."""


class BadInput(Exception):
    """The file cannot be read, or not any further. `str()` is one sentence for a person; what was loaded stays.

    :param line: the number of the line at which reading stopped, from 1; None where no line was reached
    """

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line
