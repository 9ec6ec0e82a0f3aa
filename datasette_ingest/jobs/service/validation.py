"""Check the settings and options of a job: the values, or one sentence for each fault."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import pydantic

from ... import compat, text
from ...sqlite import fold
from .. import keyset, owned_tables, schema
from ..engine.planning import open_target
from ..enrichment import Enrichment, column_fields
from ..errors import BadConfig, TableTaken
from ..model import JobOptions
from .permissions import EnrichableTable

PLAIN = {
    "missing": "a value is needed",
    "extra_forbidden": "there is no such setting",
    "string_type": "write text",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "float_parsing": "write a number",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "list_type": "write a list",
    "greater_than_equal": "write {ge} or more",
    "greater_than": "write more than {gt}",
    "less_than_equal": "write {le} or less",
    "less_than": "write less than {lt}",
    "literal_error": "choose {expected}",
    "enum": "choose {expected}",
}
"""Pydantic's types of error -> what to do. https://docs.pydantic.dev/latest/errors/validation_errors/"""


async def check_settings(
    datasette: Any,
    enrichment: Enrichment,
    table: EnrichableTable,
    config: Mapping[str, Any],
    options: Mapping[str, Any],
) -> tuple[pydantic.BaseModel, JobOptions]:
    """The enrichment's Config, guessed values where none were given, and the job's options.

    :raises BadConfig: `details` has a message `name: what is wrong` for each fault of either, or says which columns
        cannot be written
    :raises TableTaken: when a user has made a table of a name that the job would write to
    """
    checked, faults = await _check_config(enrichment, table, config)
    job_options, option_faults = _check_options(options)
    faults = list(dict.fromkeys([*faults, *option_faults]))
    if faults or checked is None or job_options is None:
        raise BadConfig("; ".join(faults), faults)
    await _check_tables(enrichment, table, checked, job_options)
    return checked, job_options


async def _check_config(
    enrichment: Enrichment, table: EnrichableTable, given: Mapping[str, Any]
) -> tuple[pydantic.BaseModel | None, list[str]]:
    fields, columns = column_fields(enrichment.Config), ", ".join(map(text.name, table.columns))
    faults = [f"{name}: there is no such setting" for name in given if not _is_setting(enrichment.Config, name)]
    guessed = await enrichment.defaults(table.db, table.name)
    try:
        config = enrichment.Config(**{**{name: value for name, value in guessed.items() if value is not None}, **given})
    except pydantic.ValidationError as problem:
        for error in problem.errors():
            is_column = error["type"] == "missing" and error["loc"][:1] and error["loc"][0] in fields
            faults.append(message(error) + (f"; the table's columns are {columns}" if is_column else ""))
        return None, faults
    present = set(map(fold, table.columns))
    chosen = {name: getattr(config, name) for name in fields if getattr(config, name) is not None}
    faults += [
        f"{name}: {table.name!r} has no column {column!r}; its columns are {columns}"
        for name, column in chosen.items()
        if fold(str(column)) not in present
    ]
    if not faults:
        try:
            enrichment.check_output(config, table.columns)
        except ValueError as problem:
            faults.append(str(problem))
    return config, faults


def _check_options(given: Mapping[str, Any]) -> tuple[JobOptions | None, list[str]]:
    known = ", ".join(JobOptions.model_fields)
    faults = [
        f"{name}: there is no such option; options are {known}" for name in given if name not in JobOptions.model_fields
    ]
    try:
        return JobOptions(**{name: given[name] for name in given if name in JobOptions.model_fields}), faults
    except pydantic.ValidationError as problem:
        return None, faults + [message(error) for error in problem.errors()]


async def _check_tables(enrichment: Enrichment, table: EnrichableTable, config: Any, options: JobOptions) -> None:
    wanted = enrichment.tables(config)

    def check(conn: sqlite3.Connection) -> None:
        schema.check(conn)
        try:
            owned_tables.check(conn, wanted)
        except TableTaken as taken:
            raise TableTaken(taken.kind, taken.name, enrichment.when_taken) from None
        open_target(conn, keyset.table_key(conn, table.name), enrichment, config, options.output)

    await compat.read(table.db, check)


def _is_setting(config_class: type[pydantic.BaseModel], name: str) -> bool:
    """Whether a Config knows the name: a misspelt setting must not be dropped in silence."""
    aliases = {info.alias for info in config_class.model_fields.values()}
    return name in config_class.model_fields or name in aliases or config_class.model_config.get("extra") == "allow"


def message(error: Any) -> str:
    """One of pydantic's errors (a dict of `ValidationError.errors()`) as `name: what to do`."""
    where = ".".join(str(part) for part in error["loc"])
    said = PLAIN.get(error["type"], str(error["msg"]).removeprefix("Value error, "))
    if error["type"] in PLAIN:
        bounds = error.get("ctx", {})
        whole = {name: int(bound) for name, bound in bounds.items() if isinstance(bound, float) and bound.is_integer()}
        said = said.format(**{**bounds, **whole})
    return f"{where}: {said}" if where else said
