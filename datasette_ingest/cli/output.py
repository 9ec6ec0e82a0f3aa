"""What the commands print, on any standard output: of any encoding, closed early or from the start, on a full device.

Nothing that is printed ends a job: what cannot be written is dropped, and the exit code says so.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import IO, Any, cast

import click

from ..masking import mask

EXIT_NOT_PRINTED = 74
"""EX_IOERR of sysexits.h: the work is done, and standard output could not take the result."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_ALIKE = {
    "█": "#",
    "░": ".",
    "…": "...",
    "–": "-",
    "—": "-",
    "’": "'",
    "“": '"',
    "”": '"',
    "×": "x",
    "·": "-",
    "›": ">",
}


def escaped(text: str) -> str:
    """The text with JSON's escapes for its characters."""
    return json.dumps(text)[1:-1] if text != "\x7f" else "\\u007f"


def _readable(error: UnicodeError) -> tuple[str, int]:
    """How a character is written that the encoding does not have: one that looks alike, or JSON's escape."""
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    return "".join(_ALIKE.get(character) or escaped(character) for character in missing), error.end


codecs.register_error("ingest-readable", _readable)


class Output(io.TextIOBase):
    """A standard stream that takes every text and raises nothing. Control characters except line ends and tabs are written
    as escapes, since what a server said must not steer the terminal.

    :param stream: None when it was closed before the program started
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.problem: OSError | None = None
        """Why something could not be written."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        with contextlib.suppress(ValueError, AttributeError):
            return bool(self._stream.isatty())
        return False

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return int(self._stream.fileno())

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.redraw(_CONTROL.sub(lambda match: escaped(match[0]), text))
        return len(text)

    def redraw(self, text: str) -> None:
        """Write a text of our own, with its control characters."""
        encoding = self.encoding
        clean = text.encode(encoding, "ingest-readable").decode(encoding)
        self._try("write", clean)

    def flush(self) -> None:
        if self._stream is not None:
            self._try("flush")

    def _try(self, method: str, *values: str) -> None:
        if self.problem is not None:
            return
        try:
            if self._stream is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            getattr(self._stream, method)(*values)
        except (OSError, ValueError) as problem:  # ValueError: the stream is closed
            self.problem = problem if isinstance(problem, OSError) else OSError(errno.EBADF, str(problem))
            _discard(self._stream)


def _discard(stream: Any) -> None:
    """Let the system take what the stream still holds, so that Python's end does not fail on it."""
    with contextlib.suppress(OSError, ValueError, AttributeError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Standard output and standard error as `Output`, while a command runs. Errors of click are printed here.

    The exit code becomes EXIT_NOT_PRINTED when the command succeeded and a full or closed standard output could not take
    its result. A reader that has left (`| head -1`) has what it wanted.
    """
    before = sys.stdout, sys.stderr
    _fill_descriptors()
    out, err = Output(before[0]), Output(before[1])
    sys.stdout, sys.stderr = out, err
    try:
        ended: click.exceptions.Exit | SystemExit | None = None
        try:
            yield
        except click.ClickException as problem:
            problem.message = mask(problem.message)  # type: ignore[misc, unused-ignore]
            problem.show(cast(IO[str], err))
            ended = SystemExit(problem.exit_code)
        except (click.exceptions.Exit, SystemExit) as asked:
            ended = asked
        out.flush()
        if out.problem is not None and out.problem.errno != errno.EPIPE:
            click.echo(f"Error: Standard output cannot be written: {out.problem.strerror}", err=True)
            if ended is None or not (ended.code if isinstance(ended, SystemExit) else ended.exit_code):
                ended = SystemExit(EXIT_NOT_PRINTED)
        err.flush()
        if ended is not None:
            raise ended
    finally:
        sys.stdout, sys.stderr = before


def _fill_descriptors() -> None:
    """Keep the numbers of the standard streams from files and sockets that are opened later."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest that is free
        pass
    os.close(number)


def redraw(line: str) -> None:
    """Draw the line on standard error, a terminal, over what it shows there."""
    if isinstance(sys.stderr, Output):
        sys.stderr.redraw("\r\x1b[K" + line)
        sys.stderr.flush()
    else:
        click.echo("\r\x1b[K" + line, err=True, nl=False)


def echo_exactly(text: str) -> None:
    """Print the text with its control characters, unless a terminal would obey them."""
    if isinstance(sys.stdout, Output) and not sys.stdout.isatty():
        sys.stdout.redraw(text)
    else:
        click.echo(text, nl=False)


def echo_json(value: Any, *, indent: int | None = None) -> None:
    """Print a value as JSON, in ASCII where standard output is not Unicode."""
    is_unicode = codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name.startswith("utf")
    click.echo(json.dumps(value, ensure_ascii=not is_unicode, indent=indent))
