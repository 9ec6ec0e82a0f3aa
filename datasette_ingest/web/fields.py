"""A model's fields as inputs of a form, and a posted form as the values that were meant."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pydantic
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import PydanticUndefined

from ..jobs.enrichment import column_fields
from ..jobs.model import LARGEST_OPTION, JobOptions
from ..text import name as readable

CONFIG_PREFIX = "config."
OPTION_PREFIX = "option."


class Widget(str, Enum):
    """The kind of an input."""

    TEXT = "text"
    LONG_TEXT = "textarea"
    INTEGER = "integer"
    NUMBER = "number"
    CHECKBOX = "checkbox"
    CHOICE = "choice"
    CHOICES = "choices"  # a list of some of these, a checkbox each
    LINES = "lines"  # a list of texts or numbers, one a line
    PASSWORD = "password"  # never shown again
    JSON = "json"


@dataclass(frozen=True)
class Field:
    """One input of the form. `name` is the posted key, `key` the setting's; `value` is what the input shows.

    `choices` are (value, label) pairs; `chosen` are those that are ticked where several may be. `bounds` says in words
    what a number may be. `error` is the sentence beside the input. `is_column`: the choices are columns, as `posted_column`.
    """

    name: str
    key: str
    label: str
    help: str
    widget: Widget
    required: bool
    nullable: bool
    advanced: bool
    value: str = ""
    checked: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    chosen: tuple[str, ...] = ()
    bounds: str = ""
    error: str | None = None
    is_column: bool = False

    @property
    def element_id(self) -> str:
        return "ingest-" + self.name.replace(".", "-")

    @property
    def hint(self) -> str:
        """The text below the input: the help, the bounds, and how a list or JSON is written."""
        kinds = {Widget.LINES: "One a line", Widget.JSON: "As JSON"}
        return ". ".join(
            part.removesuffix(".") for part in (self.help, self.bounds, kinds.get(self.widget, "")) if part
        )


def fields(
    config_class: type[pydantic.BaseModel],
    columns: Sequence[str],
    values: Mapping[str, Any],
    *,
    prefix: str = CONFIG_PREFIX,
) -> list[Field]:
    """The inputs for a model's fields, in the order in which it declares them.

    :param columns: the table's columns, the choices of a ColumnField
    :param values: what the inputs show, by setting; a setting that is missing shows its default
    :param prefix: begins the posted names
    """
    described, choosing = _schema(config_class), set(column_fields(config_class))
    return [
        _field(prefix, name, info, described, columns if name in choosing else None, values)
        for name, info in config_class.model_fields.items()
    ]


def option_fields(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[Field]:
    """The inputs for the job's own options, all advanced.

    :param defaults: what an empty input means, by option
    """
    return [
        replace(field, advanced=True, help=field.help + _empty_means(defaults.get(field.key)))
        for field in fields(JobOptions, [], values, prefix=OPTION_PREFIX)
        if field.key != "output"
    ]


def _empty_means(default: Any) -> str:
    return "" if default is None else f". Empty: {default}"


def _schema(config_class: type[pydantic.BaseModel]) -> Mapping[str, Any]:
    try:
        return config_class.model_json_schema(by_alias=False)
    except PydanticInvalidForJsonSchema:  # a type that JSON Schema cannot describe: a text input
        return {}


def _field(
    prefix: str,
    name: str,
    info: Any,
    described: Mapping[str, Any],
    columns: Sequence[str] | None,
    values: Mapping[str, Any],
) -> Field:
    schema = described.get("properties", {}).get(name, {})
    kind, nullable = _without_null(schema, described.get("$defs", {}))
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    default = None if info.default is PydanticUndefined else info.get_default(call_default_factory=False)
    value = values.get(name, default)
    listed = _without_null(kind.get("items", {}), described.get("$defs", {}))[0] if kind.get("type") == "array" else {}
    chosen = tuple(_text(item) for item in value) if _is_list(value) else ()
    if columns is None:
        labels = extra.get("labels", {})
        choices = tuple((choice, labels.get(choice, label)) for choice, label in _choices(kind) or _choices(listed))
        # The order of a list may mean something, so those chosen come first, in theirs.
        choices = tuple(sorted(choices, key=lambda each: [*chosen, each[0]].index(each[0])))
        widget = _widget(kind, listed, extra)
        shown = _text(value, widget)
    else:
        choices = tuple((posted_column(column), readable(column)) for column in columns)
        widget, shown = Widget.CHOICE, "" if value is None else posted_column(str(value))
    if widget is Widget.CHOICE and shown and shown not in {choice for choice, _ in choices}:
        choices = ((shown, f"{shown} (not available)"), *choices)
    return Field(
        name=prefix + name,
        key=name,
        label=info.title or name.replace("_", " ").capitalize(),
        help=info.description or "",
        widget=widget,
        required=info.is_required(),
        nullable=nullable,
        advanced=bool(extra.get("advanced")),
        value=shown,
        checked=value is True,
        choices=choices,
        chosen=chosen if widget is Widget.CHOICES else (),
        bounds=_bounds(kind),
        is_column=columns is not None,
    )


def posted_column(column: str) -> str:
    """A column's name as a form can send it: itself, or as JSON text where a browser would change it (line breaks
    become CR LF), an empty choice has that value, or it looks like JSON text itself."""
    return column if readable(column) == column and not column.startswith('"') else json.dumps(column)


def _column(posted: str) -> str:
    """The name that `posted_column` wrote."""
    if posted.startswith('"'):
        with contextlib.suppress(ValueError):
            return str(json.loads(posted))
    return posted


def _without_null(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The schema of the value itself, references followed, and whether null is allowed beside it."""
    schema = _followed(schema, definitions)
    branches = [_followed(branch, definitions) for branch in schema.get("anyOf", [])]
    if not branches:
        return schema, False
    real = [branch for branch in branches if branch.get("type") != "null"]
    return (real[0] if len(real) == 1 else {}), len(real) < len(branches)


def _followed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    return definitions.get(reference.rpartition("/")[2], {}) if reference else schema


def _choices(kind: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    listed = kind.get("enum") or ([kind["const"]] if "const" in kind else [])
    return tuple((str(value), str(value)) for value in listed)


def _widget(kind: Mapping[str, Any], listed: Mapping[str, Any], extra: Mapping[str, Any]) -> Widget:
    """:param listed: the schema of a list's items"""
    if _choices(kind):
        return Widget.CHOICE
    if kind.get("format") == "password" or extra.get("widget") == Widget.PASSWORD.value:
        return Widget.PASSWORD
    if extra.get("widget") == Widget.LONG_TEXT.value:
        return Widget.LONG_TEXT
    of_type = kind.get("type")
    if of_type == "array":
        if _choices(listed):
            return Widget.CHOICES
        return Widget.LINES if listed.get("type") in ("string", "integer", "number") else Widget.JSON
    simple = {
        "string": Widget.TEXT,
        "integer": Widget.INTEGER,
        "number": Widget.NUMBER,
        "boolean": Widget.CHECKBOX,
        None: Widget.TEXT,
    }
    return simple.get(of_type, Widget.JSON)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset))


def _bounds(kind: Mapping[str, Any]) -> str:
    """`1 to 9`, `At least 1`, `More than 0`; '' for any number, or any that is not negative."""
    low, high = kind.get("minimum"), kind.get("maximum")
    high = None if high == LARGEST_OPTION else high
    if low == 0 and high is None:
        return ""
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    named = (
        ("At least", low),
        ("More than", kind.get("exclusiveMinimum")),
        ("At most", high),
        ("Less than", kind.get("exclusiveMaximum")),
    )
    said = [f"{words} {number:g}" for words, number in named if number is not None]
    return ", ".join(said[:1] + [each.lower() for each in said[1:]])


def _text(value: Any, widget: Widget = Widget.TEXT) -> str:
    if value is None or widget in (Widget.PASSWORD, Widget.CHOICES):
        return ""
    if isinstance(value, str):
        return value
    if widget is Widget.LINES and _is_list(value):
        return "\n".join(map(str, value))
    if isinstance(value, Enum):
        return str(value.value)
    if widget is Widget.JSON:
        return json.dumps(value, ensure_ascii=False)
    return str(value)


# ---- a posted form ----------------------------------------------------------------------------------------------


def config_from(form: Mapping[str, str], asked: Sequence[Field]) -> dict[str, Any]:
    """The values that a posted form means. Text that does not parse as its type stays text, for validation to refuse."""
    config: dict[str, Any] = {}
    for field in asked:
        if field.widget is Widget.CHECKBOX:
            config[field.key] = field.name in form
            continue
        if field.widget is Widget.CHOICES:
            ticked = _ticked(form, field)
            config[field.key] = None if field.nullable and not ticked else list(ticked)
            continue
        if field.name not in form:
            continue
        typed = form[field.name]
        if typed.strip():
            config[field.key] = _column(typed) if field.is_column else _read(typed, field.widget)
        elif field.nullable:
            config[field.key] = None
        elif field.widget is Widget.LINES:
            config[field.key] = []
        elif field.widget in (Widget.TEXT, Widget.LONG_TEXT) and not field.required:
            config[field.key] = typed
    return config


def _ticked(form: Mapping[str, str], field: Field) -> tuple[str, ...]:
    choices = {f"{field.name}.{choice}": choice for choice, _ in field.choices}
    return tuple(choices[name] for name in form if name in choices)


def _read(typed: str, widget: Widget) -> Any:
    if widget is Widget.LINES:
        return [line.strip() for line in typed.splitlines() if line.strip()]
    try:
        if widget is Widget.INTEGER:
            return int(typed)
        if widget is Widget.NUMBER:
            return float(typed)
        if widget is Widget.JSON:
            return json.loads(typed)
    except ValueError:
        return typed
    return typed


def as_posted(form: Mapping[str, str], asked: Sequence[Field]) -> list[Field]:
    """The inputs with what the person typed."""
    return [
        replace(
            field,
            value=_typed(form, field),
            checked=field.name in form,
            chosen=_ticked(form, field),
        )
        for field in asked
    ]


def _typed(form: Mapping[str, str], field: Field) -> str:
    if field.widget is Widget.PASSWORD:
        return ""
    return form.get(field.name, "" if field.widget is not Widget.CHOICE else field.value)


def with_errors(asked: Sequence[Field], faults: Sequence[str]) -> tuple[list[Field], list[str]]:
    """The inputs with their errors, and the faults that name no input.

    :param faults: messages `setting: what is wrong`
    """
    keys = {field.key for field in asked}
    by_key: dict[str, str] = {}
    rest = []
    for fault in faults:
        name, colon, message = fault.partition(":")
        key = name.strip().split(".")[0]
        if colon and key in keys:
            by_key.setdefault(key, _sentence(message))
        else:
            rest.append(fault)
    return [replace(field, error=by_key.get(field.key)) for field in asked], rest


def _sentence(message: str) -> str:
    message = message.strip()
    return message[:1].upper() + message[1:]
