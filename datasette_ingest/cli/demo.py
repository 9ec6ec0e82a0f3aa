"""`demo`: a whole job on sample data, in seconds, without leaving the machine."""

from __future__ import annotations

import contextlib
import pathlib
import secrets
import shlex
import shutil
import socket
import sqlite3
import sys
from typing import Any

import click

from .. import compat, text
from ..demo import site
from ..jobs.model import JobStatus, StartRequest
from ..jobs.service import control, queries
from ..jobs.service.permissions import ROOT
from . import databases
from .options import settings_block
from .paths import FilePath, shell_word
from .run import run_to_end
from .tables import text_table

DEFAULT_NAME = "ingest-demo"


@click.command()
@click.argument("path", type=FilePath(exists=False), required=False)
@click.option("--serve", is_flag=True, help="Open Datasette on the result, signed in as root")
@click.option("--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="Datasette's port")
def demo(path: pathlib.Path | None, serve: bool, port: int) -> None:
    """Make a table of sample links, look for the full text behind each, and show the results.

    Example: datasette ingest demo --serve

    The sample site is part of this package and runs on this machine; nothing leaves it.
    """
    path = path or _free_name()
    if path.exists():
        raise click.ClickException(f"{text.name(str(path))} already exists. Give another path, or delete it first")
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listener(port)) if serve else None
        base = stack.enter_context(site.serving())
        _make_table(path, base)
        given = demo_settings(base)
        click.echo(
            f"{text.name(str(path))} has a table papers with {len(site.ROWS)} links to the sample site at {base}"
        )
        code = databases.run(_run(path, given))
        click.echo()
        click.echo(_rows_table(path))
        click.echo()
        if code == 0 and listener is not None:
            with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it after it has stopped
                databases.run(_serve(path, given, listener))
        elif code == 0 and set("%?#") & set(path.name):
            click.echo(
                "Rename it before you open it in a browser: Datasette cannot open a file with %, ? or # in its name."
            )
        elif code == 0:
            click.echo(f"Open it in a browser: {datasette_command()} {shell_word(path)} --root --open")
    raise SystemExit(code)


def datasette_command() -> str:
    """How this person can call `datasette`: by its path where it is not on PATH."""
    called = pathlib.Path(sys.argv[0])
    on_path = shutil.which("datasette")
    if called.name != "datasette" or (on_path is not None and pathlib.Path(on_path).resolve() == called.resolve()):
        return "datasette"
    here = pathlib.Path.cwd()
    return shlex.quote(
        str(called.relative_to(here) if called.is_absolute() and called.is_relative_to(here) else called)
    )


def _free_name() -> pathlib.Path:
    names = (pathlib.Path(f"{DEFAULT_NAME}{suffix}.db") for suffix in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(path for path in names if not path.exists())


def demo_settings(base: str) -> dict[str, Any]:
    """The example configuration for the sample site: its address may be reached, and DOIs resolve there."""
    example = settings_block(pathlib.Path(site.__file__).with_name("metadata.yml"))
    port = base.rpartition(":")[2]
    return {
        **example,
        "allow_networks": [f"127.0.0.1/32:{port}"],
        "doi_resolver": f"{base}/doi/",
        "per_host_delay": 0.1,
    }


def _make_table(path: pathlib.Path, base: str) -> None:
    try:
        path.open("xb").close()
        with contextlib.closing(compat.connect_to(path)) as conn, conn:
            conn.execute("create table papers (id integer primary key, title text, url text, wanted text)")
            conn.executemany(
                "insert into papers (title, url, wanted) values (?, ?, ?)",
                [
                    (row.title, base + row.path if row.path.startswith("/") else row.path, row.wanted)
                    for row in site.ROWS
                ],
            )
    except (OSError, sqlite3.OperationalError) as problem:
        if isinstance(problem, sqlite3.Error):  # the file is ours, and holds nothing
            path.unlink(missing_ok=True)
        said = problem.strerror if isinstance(problem, OSError) else problem
        raise click.ClickException(f"Cannot write {text.name(str(path))}: {said}") from None


async def _run(path: pathlib.Path, given: dict[str, Any]) -> int:
    async with databases.opened([path], given) as (datasette, [name]):
        config = {"url_column": "url", "type_column": "wanted"}
        job = await control.start(datasette, name, StartRequest("papers", "ingest", config=config, actor=ROOT))
        code = await run_to_end(datasette, name, job, path, given)
        job = await queries.find(datasette, name, job.id, actor=ROOT)
        return code if job.status is not JobStatus.FINISHED else 0


def _rows_table(path: pathlib.Path) -> str:
    with contextlib.closing(compat.connect_to(path)) as conn:
        rows = conn.execute("select id, title, wanted, ingest_status, coalesce(ingest_terminal_url, '') from papers")
        return text_table(("id", "link", "wanted", "status", "final URL"), rows.fetchall())


def _listener(port: int) -> socket.socket:
    """A socket for Datasette, opened before the work starts; port 0 takes any free one."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as problem:
        raise click.ClickException(
            f"Port {port} cannot be used ({problem.strerror}). Give another with --port"
        ) from None


async def _serve(path: pathlib.Path, given: dict[str, Any], listener: socket.socket) -> None:
    """Serve the demo's database with Datasette until Ctrl-C."""
    import uvicorn

    datasette = compat.open_datasette([str(path)], config={"plugins": {"datasette-ingest": given}}, with_root=True)
    await datasette.invoke_startup()
    datasette._root_token = token = secrets.token_hex(32)
    server = uvicorn.Server(uvicorn.Config(datasette.app(), log_level="warning"))
    click.echo("Open this link in a browser; it signs you in. Ctrl-C stops.")
    click.echo(f"http://127.0.0.1:{listener.getsockname()[1]}/-/auth-token?token={token}")
    await server.serve(sockets=[listener])
