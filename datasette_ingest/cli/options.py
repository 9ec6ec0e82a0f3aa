"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click
from datasette.utils import BadMetadataError, parse_metadata

from .. import settings
from ..ingest.enrichment import IngestConfig
from ..jobs.model import JobOptions
from ..text import name
from .paths import FilePath

Command = TypeVar("Command", bound=Callable[..., Any])

DB = FilePath(exists=True)
database_argument = click.argument("db", type=DB)
job_argument = click.argument("job_id", metavar="ID", type=click.IntRange(1, 2**63 - 1))
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for a program to read")
no_wait_option = click.option(
    "--no-wait",
    is_flag=True,
    help="End instead of waiting when all remaining rows wait, or the job is paused until a time",
)


def _table_prefix(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        return IngestConfig.model_validate({"url_column": "url", "table_prefix": value}).table_prefix
    except ValueError:
        raise click.BadParameter("not the table_prefix of a job") from None


table_prefix_option = click.option(
    "--table-prefix",
    "prefix",
    default="",
    metavar="TEXT",
    callback=_table_prefix,
    help="What the names of the tables of results begin with, if a job had the setting table_prefix",
)


def job_option(name: str) -> Callable[[Command], Command]:
    """A job's option, as JobOptions describes it."""
    info = JobOptions.model_fields[name]
    least = next(bound.ge for bound in info.metadata if hasattr(bound, "ge"))
    return click.option("--" + name.replace("_", "-"), type=click.IntRange(min=least), help=info.description)


_SETTINGS = (
    click.option(
        "-s", "--setting", "pairs", nargs=2, multiple=True, metavar="KEY VALUE", help="Any setting of the plugin"
    ),
    click.option(
        "-c",
        "--config",
        "config_file",
        type=DB,
        help="Read settings from the plugins: datasette-ingest: block of this file",
    ),
)
_CRAWLING = (
    click.option(
        "--allow-network",
        "networks",
        multiple=True,
        metavar="CIDR",
        help="A private address range that may be reached, such as 10.0.0.0/8 or 127.0.0.0/8:8080",
    ),
    click.option("--source", "sources", multiple=True, help="Where to look, in order: live, wayback, spn2"),
)


def setting_options(command: Command) -> Command:
    """`-s`, `-c`, `--allow-network`, `--source`: the plugin's settings, which the command gets as `given`."""
    return _with_settings(command, (*_SETTINGS, *_CRAWLING))


def file_setting_options(command: Command) -> Command:
    """`-s` and `-c` alone, for a command that does not crawl."""
    return _with_settings(command, _SETTINGS)


def _with_settings(command: Command, options: Sequence[Callable[[Any], Any]]) -> Command:
    @functools.wraps(command)
    def with_settings(
        pairs: Iterable[tuple[str, str]],
        config_file: pathlib.Path | None,
        networks: tuple[str, ...] = (),
        sources: tuple[str, ...] = (),
        **rest: Any,
    ) -> Any:
        given = dict(settings_block(config_file) if config_file else {})
        given |= parse_pairs(pairs)
        if networks:
            given["allow_networks"] = [*_as_list(given.get("allow_networks")), *networks]
        if sources:
            given["sources"] = list(sources)
        check(given)
        return command(given=given, **rest)

    return _with_options(with_settings, options)  # type: ignore[return-value]


def _with_options(command: Command, options: Sequence[Callable[[Any], Any]]) -> Command:
    """The command with these options, in this order in its help."""
    for option in reversed(options):
        command = option(command)
    return command


def running_options(command: Command) -> Command:
    """Options of the commands that run a job: `--no-run` and those of `run_to_end`."""
    options = (
        click.option("--no-run", is_flag=True, help="Do not run the job here: a server or a worker runs it"),
        no_wait_option,
        setting_options,
        json_option,
    )
    return _with_options(command, options)


def check(given: Mapping[str, Any]) -> settings.Settings:
    """The settings, or a usage error that names the wrong one."""
    try:
        return settings.load(given)
    except settings.SettingsError as problem:
        raise click.UsageError(str(problem)) from None


def for_the_job(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are stored with a job."""
    return {key: value for key, value in given.items() if key in settings.JOB_SETTINGS}


def parse_pairs(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """KEY VALUE pairs as a mapping: a value is read as JSON if it parses, else as text; a repeated key makes a list."""
    found: dict[str, Any] = {}
    for key, text in pairs:
        value = _value(text)
        found[key] = [*_as_list(found[key]), value] if key in found else value
    return found


def parse_assignments(texts: Iterable[str]) -> dict[str, Any]:
    """`key=value` texts as a mapping, by the same rules."""
    pairs = []
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise click.UsageError(f"--set {text}: write it as key=value")
        pairs.append((key, value))
    return parse_pairs(pairs)


def _value(text: str) -> Any:
    if text.startswith("@env:"):
        return {"$env": text.removeprefix("@env:")}
    try:
        return json.loads(text)
    except ValueError:
        return text


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def settings_block(path: pathlib.Path) -> dict[str, Any]:
    """The plugin's settings in a configuration file, not checked yet."""
    try:
        content = parse_metadata(path.read_text("utf-8"))
    except (BadMetadataError, ValueError):  # ValueError: bytes that are not UTF-8
        raise click.UsageError(f"{name(str(path))} is neither YAML nor JSON") from None
    plugins = content.get("plugins") if isinstance(content, dict) else None
    block = plugins.get("datasette-ingest") if isinstance(plugins, dict) else None
    if block is None:
        raise click.UsageError(f"{name(str(path))} has no plugins: datasette-ingest: block")
    if not isinstance(block, dict):
        raise click.UsageError(f"{name(str(path))}: plugins: datasette-ingest: must hold settings")
    return block


class _Text(click.types.StringParamType):
    """Text that was UTF-8 on the command line, whatever the locale says. SQLite, URLs and JSON take no other."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        try:
            return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8")
        except UnicodeError:
            self.fail(f"{text!r} is not UTF-8.", param, ctx)


def readable_text(command: click.Command) -> None:
    """Let the command's arguments and options, and its subcommands', be text only. Paths may be any bytes."""
    for parameter in command.params:
        if isinstance(parameter.type, click.Tuple):
            parameter.type.types = [_Text() if kind is click.STRING else kind for kind in parameter.type.types]
        elif parameter.type is click.STRING:
            parameter.type = _Text()
    for inner in getattr(command, "commands", {}).values():
        readable_text(inner)
