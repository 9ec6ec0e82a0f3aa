"""Rows that are ticked on the form while it pages through a selection: what a posted form says of them. Pure.

A row is named by the filter that selects it alone, `_row=5`, so that what is picked is a Datasette querystring.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from ..jobs.errors import BadSelection
from ..jobs.service.row_filters import MAX_PICKED

PICKED, SHOWN, TRAIL, NEXT, TURN = "picked", "shown", "trail", "next", "turn"
"""Names of the form's fields: all that is picked, what this page shows, the way here, the page behind, the button."""
TICK = "tick."
"""Begins the name of a row's checkbox; its filter follows."""
MOST_PAGES_BACK = 200
MOST_NAMED = 2 * MAX_PICKED
"""Rows of a form that are read at all, so that its reader is told how many are too many, and the server is not held up."""
KEYS = frozenset({"_row", "_rowid"})


@dataclass(frozen=True)
class Picking:
    """`picked`: filters of single rows, in the order in which they were ticked. `trail`: the cursors of the pages that
    were seen, the last one that of the page to show; `""` begins at the first row."""

    picked: tuple[str, ...] = ()
    trail: tuple[str, ...] = ("",)

    @property
    def cursor(self) -> str:
        return self.trail[-1]

    @property
    def is_first_page(self) -> bool:
        return len(self.trail) == 1

    @property
    def is_too_many(self) -> bool:
        return len(self.picked) > MAX_PICKED

    @property
    def querystring(self) -> str:
        return "&".join(self.picked)

    @property
    def trail_text(self) -> str:
        return json.dumps(self.trail)

    def filters(self, whole: str) -> str:
        """The job's filters: the picked rows, or where none is the whole selection."""
        return self.querystring or whole


def from_form(form: Mapping[str, str]) -> Picking:
    """What is picked, and the page to show, after the button that was pressed.

    :raises BadSelection: for fields that no form of ours sends
    """
    before, shown = _filters(form.get(PICKED, "")), _filters(form.get(SHOWN, ""))
    ticked = _filters("&".join(name[len(TICK) :] for name in form if name.startswith(TICK)))
    unticked = set(shown) - set(ticked)
    kept = [each for each in before if each not in unticked]
    picked = () if form.get(TURN) == "clear" else tuple(dict.fromkeys([*kept, *ticked]))
    return Picking(picked, _turned(_trail(form.get(TRAIL, "")), form.get(TURN, ""), form.get(NEXT, "")))


def only_picks(querystring: str) -> tuple[str, ...]:
    """The filters of single rows that a querystring consists of; none where there is another filter among them."""
    try:
        return tuple(dict.fromkeys(_filters(querystring)))
    except BadSelection:
        return ()


def is_turning(form: Mapping[str, str]) -> bool:
    """Whether another page of rows was asked for."""
    return form.get(TURN) in ("next", "back")


def _turned(trail: tuple[str, ...], turn: str, following: str) -> tuple[str, ...]:
    if turn == "next" and following:
        return (*trail, following)[-MOST_PAGES_BACK:]
    if turn == "back" and len(trail) > 1:
        return trail[:-1]
    return trail


def _filters(text: str) -> list[str]:
    """A querystring's filters one by one, spelt as we spell them."""
    if text.count("&") >= MOST_NAMED:
        raise BadSelection(
            f"More than {MOST_NAMED:,} rows are picked; {MAX_PICKED:,} is the most. Filter the table instead"
        )
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError:
        pairs = [("", text)]
    if any(key not in KEYS for key, _ in pairs):
        raise BadSelection("The picked rows cannot be read: open the form again")
    return [urlencode([pair]) for pair in pairs]


def _trail(text: str) -> tuple[str, ...]:
    if not text:
        return ("",)
    try:
        trail = json.loads(text)
    except (ValueError, RecursionError):
        trail = None
    if not isinstance(trail, list) or not trail or not all(isinstance(cursor, str) for cursor in trail):
        raise BadSelection("The page of rows cannot be found: open the form again")
    return tuple(trail[-MOST_PAGES_BACK:])
