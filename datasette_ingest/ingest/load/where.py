"""`--where`: conditions on the fields of a record, in the form of Datasette's filters: `year__gte=2020`.

A field may be a path into the record, `host_venue.type`. A field that begins with `location.` is one of each place
where the work can be read: places that do not meet the condition are left out, and the work stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .rows import parsed

LOCATION = "location."


def _text(value: Any) -> str:
    """A value as it is written in a condition: JSON's words for true and false."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[Any, str], bool]:
    """Compare as numbers where both are numbers, else as texts."""

    def holds(value: Any, wanted: str) -> bool:
        numbers = _number(value), _number(wanted)
        return test(*numbers) if None not in numbers else test(_text(value), wanted)

    return holds


def _equals(value: Any, wanted: str) -> bool:
    if isinstance(value, list):
        return any(_equals(each, wanted) for each in value)
    return _text(value) == wanted or (_number(value) is not None and _number(value) == _number(wanted))


OPERATORS: dict[str, Callable[[Any, str], bool]] = {
    "exact": _equals,
    "not": lambda value, wanted: not _equals(value, wanted),
    "contains": lambda value, wanted: wanted.lower() in _text(value).lower(),
    "startswith": lambda value, wanted: _text(value).startswith(wanted),
    "endswith": lambda value, wanted: _text(value).endswith(wanted),
    "gt": _compare(lambda value, wanted: value > wanted),
    "gte": _compare(lambda value, wanted: value >= wanted),
    "lt": _compare(lambda value, wanted: value < wanted),
    "lte": _compare(lambda value, wanted: value <= wanted),
    "in": lambda value, wanted: any(_equals(value, each) for each in wanted.split(",")),
}
"""Of a field that has a value. One that is missing, null or empty meets `isblank` and `not`, and no other."""
_BLANKS = {"isblank": True, "notblank": False}


@dataclass(frozen=True)
class Condition:
    """One condition: `path` into a record, an operator, and what the field is compared with."""

    path: tuple[str, ...]
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """`year__gte=2020`. Raises ValueError, which says what is wrong."""
        name, is_equation, value = text.partition("=")
        field, has_operator, operator = name.rpartition("__")
        if not has_operator:
            field, operator = name, "exact"
        if not is_equation or not field:
            raise ValueError(f"{text!r} is no condition: write FIELD=VALUE or FIELD__OPERATOR=VALUE")
        if operator not in OPERATORS and operator not in _BLANKS:
            raise ValueError(f"there is no operator {operator!r}; operators are {', '.join([*OPERATORS, *_BLANKS])}")
        return cls(tuple(field.split(".")), operator, value)

    def holds(self, record: Any) -> bool:
        value = record
        for key in self.path:
            value = value.get(key) if isinstance(value, Mapping) else None
        is_blank = value is None or value == "" or value == []
        if self.operator in _BLANKS:
            return is_blank is _BLANKS[self.operator]
        return self.operator == "not" if is_blank else OPERATORS[self.operator](value, self.value)


@dataclass(frozen=True)
class Where:
    """Conditions that must all hold: of the record, and of each location."""

    of_record: tuple[Condition, ...]
    of_location: tuple[Condition, ...]

    @classmethod
    def parse(cls, texts: Iterable[str], *, has_locations: bool) -> Where | None:
        """None where there are no conditions. Raises ValueError for one that cannot be read.

        :param has_locations: whether records of this format have several locations
        """
        of_record, of_location = [], []
        for text in texts:
            if has_locations and text.startswith(LOCATION):
                of_location.append(Condition.parse(text.removeprefix(LOCATION)))
            else:
                of_record.append(Condition.parse(text))
        return cls(tuple(of_record), tuple(of_location)) if of_record or of_location else None

    def holds(self, record: Any) -> bool:
        return all(condition.holds(record) for condition in self.of_record)

    def filter(self, line: bytes, locations: str) -> Any:
        """The JSON value of a line with those of its locations that are wanted; None where the record is not.

        :param locations: the field with the list of locations
        """
        record = parsed(line)
        if not self.holds(record):
            return None
        if self.of_location and isinstance(record, dict) and isinstance(record.get(locations), list):
            kept = [each for each in record[locations] if all(c.holds(each) for c in self.of_location)]
            record = {**record, locations: kept}
        return record
