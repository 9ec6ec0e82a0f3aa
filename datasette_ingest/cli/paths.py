"""Files that a person names on the command line: checked when they are read, and written so that they can be used again."""

from __future__ import annotations

import os
import pathlib
import shlex
import stat
from typing import Any

import click


class FilePath(click.Path):
    """A file's path, as a pathlib.Path. `exists`: whether the file must be there."""

    def __init__(self, *, exists: bool) -> None:
        super().__init__(exists=exists, dir_okay=False, path_type=pathlib.Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        given = os.fspath(value)
        if not given or given.endswith(("/", "/.", "/..")) or given in (".", ".."):
            self.fail(
                f"File {click.format_filename(given)!r} is a directory." if given else "The path is empty.", param, ctx
            )
        path = super().convert(value, param, ctx)
        try:
            is_other = not stat.S_ISREG(os.stat(path).st_mode)
        except OSError:  # where it must be there, click has said so
            is_other = False
        if is_other:
            self.fail(f"{click.format_filename(given)!r} is not a file but a device, a pipe or a socket.", param, ctx)
        return path


def shell_word(path: pathlib.Path) -> str:
    """The path as a word of a command that can be pasted into a shell: `./-x.db`, `'my papers.db'`, `$'a\\nb.db'`."""
    given = str(path)
    given = f"./{given}" if given.startswith("-") else given
    if given.isprintable():
        return shlex.quote(given)
    return "$'" + "".join(map(_escaped, os.fsencode(given))) + "'"


def _escaped(byte: int) -> str:
    character = chr(byte)
    if character in "\\'":
        return "\\" + character
    return character if character.isascii() and character.isprintable() else f"\\x{byte:02x}"
