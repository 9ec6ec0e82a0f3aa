"""A Datasette instance for one command, jobs as JSON, and errors as one line that says what to do."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sqlite3
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, TypeVar

import click

from .. import compat, settings, text
from ..ingest.errors import StoreError
from ..jobs.errors import JobError, JobNotFound
from ..jobs.model import Job
from ..web.jobs_list import as_model
from .paths import shell_word

T = TypeVar("T")

HEAD = b"SQLite format 3\0"
"""How the file of a SQLite database begins, unless it is empty."""
LOCK_SECONDS = 5.0
"""How long to wait for another program's lock before anything is read."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result; a foreseeable error ends in one line and exit code 1."""
    try:
        return asyncio.run(work)
    except JobNotFound as problem:
        path = shell_word(click.get_current_context().params["db"])
        raise click.ClickException(f"{problem.message}. List the jobs with: datasette ingest jobs {path}") from problem
    except JobError as problem:
        if isinstance(problem.__cause__, sqlite3.OperationalError):
            raise click.ClickException(_sqlite_message(problem.__cause__)) from problem
        raise click.ClickException(problem.message) from problem
    except settings.SettingsError as problem:
        raise click.UsageError(str(problem)) from problem
    except StoreError as problem:
        raise click.ClickException(problem.message) from problem
    except compat.Busy as problem:
        raise click.ClickException(f"{problem}. Close it, or try again when it is done") from problem
    except compat.Unavailable as problem:
        raise click.ClickException(str(problem)) from problem
    except sqlite3.OperationalError as problem:
        raise click.ClickException(_sqlite_message(problem)) from problem
    except sqlite3.DatabaseError as problem:
        raise click.ClickException(
            f"This is not a usable SQLite database ({problem}). Check the file, or restore a copy"
        ) from problem


def _sqlite_message(problem: sqlite3.OperationalError) -> str:
    if compat.is_busy(problem):
        return "The database is locked by another program. Close it, or try again when it is done"
    if "readonly" in str(problem) or "read-only" in str(problem):
        return "The database file may not be written: change its permissions, or work on a copy"
    return f"SQLite says: {problem}"


@contextlib.asynccontextmanager
async def opened(
    paths: list[pathlib.Path], given: Mapping[str, Any] | None = None
) -> AsyncIterator[tuple[Any, list[str]]]:
    """(Datasette on these files, the databases' names in the same order), closed at the end. A file that is given by
    several names is opened once."""
    files: dict[tuple[int, int], str] = {}
    for path in paths:
        _check_file(path)
        found = path.stat()
        files.setdefault((found.st_dev, found.st_ino), str(path))
    datasette = compat.open_datasette(
        list(files.values()),
        config={"plugins": {"datasette-ingest": dict(given or {})}},
        with_root=True,
    )
    try:
        await datasette.invoke_startup()
        yield datasette, [name for name, db in datasette.databases.items() if compat.file_of(db) is not None]
    finally:
        compat.close(datasette)


def _check_file(path: pathlib.Path) -> None:
    """Check the file before Datasette does, which prints its own messages."""
    with path.open("rb") as file:
        head = file.read(len(HEAD))
    if head and head != HEAD:
        raise click.ClickException(
            f"{text.name(str(path))} is not a SQLite database. Give the path of one, such as papers.db"
        )
    with contextlib.closing(compat.connect_to(path, timeout=LOCK_SECONDS)) as conn:
        conn.execute("select name from sqlite_master").fetchall()


async def job_as_json(datasette: Any, database: str, job: Job) -> dict[str, Any]:
    """A job as the API shows it."""
    return (await as_model(datasette, database, job)).as_dict()
