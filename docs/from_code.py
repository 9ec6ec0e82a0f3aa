"""The parts of these pages that are written by the code they describe. Called from the cog blocks."""

from __future__ import annotations

import ast
import contextlib
import pathlib
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_origin

import click
import columns
import pydantic_core
from datasette.app import Datasette  # noqa: F401 - loads the plugins in the order in which the program does
from pydantic import SecretStr

from datasette_ingest import settings
from datasette_ingest.cli import ingest
from datasette_ingest.ingest import schema as results
from datasette_ingest.ingest.advice import advice, cases
from datasette_ingest.ingest.enrichment import IngestConfig
from datasette_ingest.ingest.errors import STATUSES, SUCCESS, IngestError, PlatformHttpError, Spn2Error, retry_of_code
from datasette_ingest.ingest.export.fatcat import REASONS
from datasette_ingest.ingest.linkrule import LinkRule, Place
from datasette_ingest.ingest.page.links.rules import built_in_rules, rewrites
from datasette_ingest.ingest.retry import MAX_ATTEMPTS, WAITS
from datasette_ingest.jobs import schema as engine

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = pathlib.Path(settings.__file__).parent
CODES = (429, 500, 502, 503, 504, 404, 400, 401, 403, 405, 410, 451)
"""HTTP statuses by which a retry class that depends on them is told."""
PLATFORM_WORDS = (401, 403, 404, 410)
"""Those that have words of their own when an API answers with them."""


def commands(group: click.Group = ingest, path: Sequence[str] = ()) -> dict[str, click.Command]:
    """Every command that does something, by the words that follow `datasette ingest`."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        here = (*path, name)
        found |= commands(command, here) if isinstance(command, click.Group) else {" ".join(here): command}
    return found


def help_of(name: str) -> str:
    """What `datasette ingest NAME --help` prints on a terminal of 100 columns, as a code block."""
    command = commands()[name]
    context = click.Context(command, info_name=f"datasette ingest {name}", terminal_width=100, max_content_width=100)
    with context:
        text = command.get_help(context)
    return f"```\n{text}\n```\n"


def list_of_commands() -> str:
    return _table(
        ("command", "what it does"),
        (
            (f"[`{name}`](#{name.replace(' ', '-')})", command.get_short_help_str(limit=200))
            for name, command in commands().items()
        ),
    )


def kafka_table() -> str:
    """The settings within the setting `kafka`."""
    return _described(settings.KafkaSettings.model_fields)


def settings_table() -> str:
    return _described(settings.Settings.model_fields)


def _described(fields: Mapping[str, Any]) -> str:
    return _table(
        ("setting", "type", "default", "meaning"),
        (
            (f"`{name}`", _type_name(f.annotation), _default(f.default), f.description or "")
            for name, f in fields.items()
        ),
    )


def _type_name(annotation: Any) -> str:
    names = {
        bool: "true or false",
        int: "whole number",
        float: "number",
        float | None: "number",
        str: "text",
        str | None: "text",
        SecretStr | None: "secret",
        settings.KafkaSettings | None: "settings",
        tuple[str, ...]: "list of texts",
        tuple[LinkRule, ...]: "list of rules",
        Mapping[str, Any] | bool | None: "allow block",
    }
    return "text" if get_origin(annotation) is Literal else names[annotation]


def _default(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def config_table() -> str:
    """The settings of one ingest job."""
    return _table(
        ("setting", "default", "meaning"),
        (
            (f"`{name}`", _config_default(name, info.default), info.description or info.title or "")
            for name, info in IngestConfig.model_fields.items()
        ),
    )


def _config_default(name: str, default: Any) -> str:
    return (
        "guessed" if name == "url_column" else "" if default is pydantic_core.PydanticUndefined else _default(default)
    )


def engine_tables() -> str:
    """The tables of jobs, as a fresh database gets them."""
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        engine.migrate(conn)
        return "\n".join(_columns(conn, name, columns.ENGINE[name]) for name in engine.TABLES)


def result_tables() -> str:
    """The tables of results."""
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        results.migrate(conn, results.TABLES)
        ordered = [*results.RESULT_TABLES, *(name for name in results.TABLES if name not in results.RESULT_TABLES)]
        return "\n".join(_columns(conn, name, columns.RESULTS[name]) for name in ordered)


def result_views() -> str:
    return (
        "".join(
            f"```sql\ncreate view {name} as\n{view.select}\n```\n\n" for name, view in results.VIEWS.items()
        ).rstrip("\n")
        + "\n"
    )


def _columns(conn: sqlite3.Connection, table: str, meanings: Mapping[str, str]) -> str:
    found = conn.execute("select name, lower(type), pk from pragma_table_info(?)", [table]).fetchall()
    unknown = set(meanings) - {name for name, _, _ in found}
    if unknown:
        raise LookupError(f"{table} has no columns {sorted(unknown)}")
    rows = ((f"`{name}`", kind + (", key" if key else ""), meanings[name]) for name, kind, key in found)
    return f"### {table}\n\n{_table(('column', 'type', 'meaning'), rows)}"


def status_table() -> str:
    """Every word that can stand in a status column, when it is given, and when it is tried again."""
    rows = [(f"`{SUCCESS}`", "The wanted file was found. Every hit has this status.", "", "")]
    rows += [(f"`{slug}`", _when(error), _again(error), advice(slug)) for slug, error in STATUSES.items()]
    rows += [
        (f"`{name.partition(':')[0]}`: {case.label}", case.meaning, "", case.advice) for name, case in cases().items()
    ]
    return _table(("status", "given when", "tried again", "what to do"), rows)


def left_out_table() -> str:
    """Why a hit is no record for a catalogue."""
    return _table(("reason", "meaning"), ((f"`{slug}`", what) for slug, what in REASONS.items()))


def rules_table() -> str:
    """The rules by which pages are read, in the order in which their links are tried."""
    rows = (
        (f"`{rule.name}`", rule.target or "any", rule.place.value, _example(rule), str(rule.trust))
        for rule in built_in_rules()
    )
    return _table(("rule", "leads to", "place", "example", "trust"), rows)


def _example(rule: LinkRule) -> str:
    if rule.place is Place.URL:
        return f"`{rule.example_page}`"
    return f"`{rule.example}`"


def rewrites_table() -> str:
    return _table(
        ("name", "instead of", "first"),
        ((rewrite.name, f"`{rewrite.example}`", f"`{rewrite.example_found}`") for rewrite in rewrites()),
    )


def _when(error: type[IngestError]) -> str:
    return " ".join((error.__doc__ or "").split("\n\n")[0].split())


def _again(error: type[IngestError]) -> str:
    if error is Spn2Error:
        return f"{error.retry.value}; never: {', '.join(sorted(Spn2Error.PERMANENT))}"
    if not error.by_code:
        return error.retry.value
    by_class: dict[str, list[str]] = {}
    for code in CODES:
        if error is PlatformHttpError and code in PLATFORM_WORDS:
            continue
        by_class.setdefault(retry_of_code(code).value, []).append(str(code))
    *some, (rest, _) = by_class.items()
    return "; ".join([*(f"{word}: {', '.join(codes)}" for word, codes in some), f"else {rest}"])


def retry_table() -> str:
    """How long each class waits."""
    rows = ((f"`{retry.value}`", _WORDS[retry.value], *_wait(waits)) for retry, waits in WAITS.items())
    return _table(("class", "meaning", "first wait", "longest wait"), rows)


_WORDS = {
    "now": "the server asked for a pause",
    "soon": "a fault that usually passes",
    "later": "nothing changes until somebody changes something",
    "never": "the same bytes would give the same answer",
}


def _wait(waits: tuple[Any, Any] | None) -> tuple[str, str]:
    return ("", "") if waits is None else (_span(waits[0]), _span(waits[1]))


def _span(delta: Any) -> str:
    for seconds, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if delta.total_seconds() >= seconds:
            number = delta.total_seconds() / seconds
            return f"{number:g} {unit}{'' if number == 1 else 's'}"
    raise ValueError(f"shorter than a minute: {delta}")


def most_attempts() -> str:
    return f"After {MAX_ATTEMPTS} tries a miss is not tried again by itself.\n"


def modules() -> str:
    """Every folder of the package with its modules, each as the first paragraph of its docstring says."""
    return "\n".join(_room(folder) for folder in (PACKAGE, *sorted(_folders(PACKAGE))))


def _folders(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    for init in folder.glob("*/__init__.py"):
        yield init.parent
        yield from _folders(init.parent)


def _room(folder: pathlib.Path) -> str:
    name = folder.relative_to(PACKAGE.parent).as_posix()
    files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    table = _table(("module", "what it is"), ((f"`{path.name}`", _first_paragraph(path)) for path in files))
    return f"### {name}\n\n{_first_paragraph(folder / '__init__.py')}\n" + (f"\n{table}" if files else "")


def _first_paragraph(path: pathlib.Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def import_layers() -> str:
    """The layers of each import contract, from the top."""
    rows = []
    for contract in _contracts("layers"):
        named = [[name.strip(" ()") for name in layer.replace("|", ":").split(":")] for layer in contract["layers"]]
        for container in contract.get("containers", [named[0][0].rpartition(".")[0]]):
            layers = [[name.removeprefix(f"{container}.") for name in layer] for layer in named]
            known = [[f"`{name}`" for name in layer if _exists(container, name)] for layer in layers]
            rows.append((f"`{container}`", " › ".join(", ".join(layer) for layer in known if layer)))
    return _table(("in", "layers, from the top"), sorted(rows, key=lambda row: row[0].strip("`")))


def _exists(container: str, name: str) -> bool:
    """Whether a layer stands for a module: some may be missing."""
    path = PACKAGE.parent.joinpath(*container.split("."), name)
    return path.is_dir() or path.with_suffix(".py").is_file()


def import_rules() -> str:
    """The other import contracts, by their names."""
    return "\n".join(f"- {contract['name']}" for kind in _OTHER for contract in _contracts(kind)) + "\n"


_OTHER = ("forbidden", "acyclic_siblings")


def _contracts(kind: str) -> list[dict[str, Any]]:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))
    found = project["tool"]["importlinter"]["contracts"]
    assert {contract["type"] for contract in found} <= {"layers", *_OTHER}
    return [contract for contract in found if contract["type"] == kind]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def fleet_calculation() -> str:
    """What 100 million URLs need, by what was measured and what is assumed: the second table of docs/fleet.md."""
    urls, days = 100e6, 30
    seconds = days * 24 * 3600.0
    worker_s, persist_s, push_s = 75, 2800, 7100
    request_bytes, result_bytes, row_bytes = 400, 1250, 2080
    requests_each, hit_share, file_bytes, text_bytes = 3, 0.5, 1e6, 50e3
    delay = settings.Settings().per_host_delay
    rate = urls / seconds
    tables = [
        ("URLs a second, to end in 30 days", f"{urls:,.0f} / {seconds:,.0f} s", f"{rate:.0f}"),
        ("workers, by processor", f"{rate:.0f} / {worker_s}", "1; 4 leave room for reading files, deaths, peaks"),
        ("messages a second", f"{rate:.0f} requests, {rate:.0f} results, few others", f"about {2.5 * rate:.0f}"),
        (
            "bytes in Kafka, before compression and copies",
            f"{urls:,.0f} x ({request_bytes} + {result_bytes}) B",
            f"{urls * (request_bytes + result_bytes) / 1e9:.0f} GB",
        ),
        (
            "the most URLs that one host may have",
            f"{seconds:,.0f} s / ({requests_each} requests x {delay:g} s)",
            f"{seconds / (requests_each * delay) / 1e6:.1f} million",
        ),
        (
            "hosts, at least",
            f"{urls:,.0f} / that",
            f"{urls / (seconds / (requests_each * delay)):.0f}, if all are equally large",
        ),
        (
            "the most DOIs, by the resolver's pace",
            f"{seconds:,.0f} s / {delay:g} s",
            f"{seconds / delay / 1e6:.1f} million",
        ),
        (
            "download",
            f"{rate:.0f} x {hit_share:g} x {file_bytes / 1e6:g} MB/s",
            f"{rate * hit_share * file_bytes * 8 / 1e6:.0f} Mbit/s",
        ),
        (
            "objects in S3, and their size",
            f"{urls:,.0f} x {hit_share:g}",
            f"{urls * hit_share / 1e6:.0f} million, {urls * hit_share * file_bytes / 1e12:.0f} TB",
        ),
        ("`kafka push`", f"{urls:,.0f} / {push_s:,}", f"{urls / push_s / 3600:.0f} hours"),
        (
            "`kafka persist`",
            f"{urls:,.0f} / {persist_s:,}",
            f"{urls / persist_s / 3600:.0f} hours, while the indexes fit into memory",
        ),
        ("SQLite without full text", f"{urls:,.0f} x {row_bytes:,} B", f"{urls * row_bytes / 1e9:.0f} GB"),
        (
            "full text, beside its index",
            f"{urls * hit_share:,.0f} x {text_bytes / 1e3:.0f} kB",
            f"{urls * hit_share * text_bytes / 1e12:.1f} TB",
        ),
    ]
    rows = [f"| {name} | {term} | {value} |" for name, term, value in tables]
    return "\n".join(["| what | from | is |", "| --- | --- | --- |", *rows])
