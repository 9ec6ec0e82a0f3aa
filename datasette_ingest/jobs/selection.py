"""A table and a Datasette filter query string -> the SQL that selects a job's rows, checked for the actor.

The filters are Datasette's own (its Filters class and the filters_from_request hook), so filters of other plugins work
too. Added here: no filter is ignored in silence, and no parameter overwrites another.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode

from datasette.filters import Filters
from datasette.utils import await_me_maybe, tilde_encode
from datasette.utils.asgi import BadRequest, Forbidden

from .. import compat, sqlite
from . import keyset
from .errors import BadSelection, NotAllowed, message_of

T = TypeVar("T")

DISPLAY_KEYS = frozenset({
    "_sort", "_sort_desc", "_next", "_size", "_col", "_nocol", "_shape", "_label", "_labels", "_extra", "_nocount",
    "_facet", "_facet_size", "_nofacet", "_nosuggest", "_trace", "_ttl", "_json",
})  # fmt: skip
"""Keys that say only how a table's page is shown. So does `_facet_<type>` of each type of facet."""
FORM_KEYS = frozenset({"_again", "_retry"})
"""Keys of our form's address: the job whose settings fill it."""
SCOPE_FILTERS = {"_ingest_due": "due", "_ingest_pending": "pending"}
"""Filters that name an enrichment -> the scope of its `retry_where` that they select, for its usual settings."""
OWN_FILTERS = frozenset(
    {"_row", "_rowid", "_ingest_failed", "_ingest_status", "_ingest_job", "_ingest_retry", "_ingest_scope"}
) | set(SCOPE_FILTERS)
COMPANIONS = {"_ingest_job": "_ingest_status", "_ingest_scope": "_ingest_retry"}
"""Filters of ours that select nothing by themselves, and the one that each belongs to."""
WAIT_MS = 1000.0
"""Time limit of one query while somebody waits for the answer."""
MOST_FILTER_BYTES = 64 * 1024
"""Longest filters, as they stand in an address, without `_row` and `_rowid`."""
MOST_VALUES = 1000
"""Values of one filter, and filters together, other than `_row` and `_rowid`."""
INLINE_CHARACTERS = 8 * 1024
"""Filters up to this length are taken apart on the event loop, in a millisecond or two; longer ones in a thread."""
MOST_PAIRS = 10_000
"""Filters and single rows that are taken apart at all: enough to say how many are too many."""
CORE_FILTERS = frozenset({"_where", "_search", "_searchmode", "_through"}) | OWN_FILTERS
GIVEN_ONCE = frozenset({"_search", "_searchmode", "_ingest_status", "_ingest_job", "_ingest_retry"})
"""Filters of which Datasette, or we, read only the first."""
NAMING_OWN_ROWS = OWN_FILTERS - {"_ingest_retry"} | {"_searchmode"}
"""Filters that name nothing but rows of the table, and jobs over it."""


Answer = tuple[list[str], dict[str, Any], list[str]]
"""What one plugin's filters are: SQL conditions, their parameters, and words for them."""


@dataclass(frozen=True)
class Selection:
    """The rows of a job as SQL.

    `where` is '' or a condition in parentheses with named parameters `params`. `querystring` holds the filters without
    display keys. `description` says in words which rows these are ('' for all). `is_free_sql`: the condition holds a
    person's own SQL, which may be slow, so it never runs on the write connection. `columns`: the columns that filters
    name; if one is dropped later, SQLite would read its quoted name as a string.
    """

    querystring: str = ""
    where: str = ""
    params: Mapping[str, Any] = ()  # type: ignore[assignment]
    description: str = ""
    is_free_sql: bool = False
    columns: tuple[str, ...] = ()

    def dump(self) -> str:
        """The checked SQL and its description as JSON, to be stored with the job."""
        params = {name: keyset.dump((value,)) for name, value in dict(self.params).items()}
        kept = {"where": self.where, "params": params, "is_free_sql": self.is_free_sql, "columns": self.columns}
        return json.dumps({**kept, "description": self.description})

    @classmethod
    def load(cls, text: str, querystring: str) -> Selection:
        """The stored selection; one of an earlier version has no description.

        :raises ValueError: for text that `dump` did not write
        """
        stored = json.loads(text)
        if not isinstance(stored, dict) or not {"where", "params", "is_free_sql", "columns"} <= set(stored):
            raise ValueError(f"not a stored selection: {text!r}")
        description, texts = stored.get("description", ""), stored["columns"]
        is_fit = (
            isinstance(stored["where"], str) and isinstance(description, str) and isinstance(stored["params"], dict)
        )
        if not is_fit or not isinstance(texts, list) or not all(isinstance(name, str) for name in texts):
            raise ValueError(f"not a stored selection: {text!r}")
        params = {name: keyset.load(value)[0] for name, value in stored["params"].items()}
        return cls(querystring, stored["where"], params, description, bool(stored["is_free_sql"]), tuple(texts))


def require_short(querystring: str) -> None:
    """Refuse more filters than a job may have before they are taken apart, which takes time.

    :raises BadSelection:
    """
    if len(querystring) < MOST_VALUES:
        return
    if querystring.count("&") > MOST_PAIRS:
        raise BadSelection(f"These are more than {MOST_PAIRS:,} filters or single rows. Choose fewer")
    others = [pair for pair in querystring.lstrip("?").split("&") if not pair.startswith(("_row=", "_rowid="))]
    if sum(len(pair.encode("utf-8", "surrogatepass")) + 1 for pair in others) > MOST_FILTER_BYTES:
        raise BadSelection(
            f"These filters are longer than {MOST_FILTER_BYTES // 1024} kB. Choose fewer or shorter ones"
        )
    if len(others) > MOST_VALUES:
        raise BadSelection(f"These are more than {MOST_VALUES:,} filters. Choose fewer")


def filter_arguments(querystring: str) -> str:
    """The filters in the query string of a page, without display keys and keys of our form.

    :raises BadSelection: for more of them than a job may have
    """
    require_short(querystring)
    return _without(querystring, lambda key: _is_display(key) or key in FORM_KEYS)


def _without(querystring: str, is_dropped: Callable[[str], bool]) -> str:
    return urlencode([(key, value) for key, value in _pairs(querystring) if not is_dropped(key)])


async def _taken_apart(querystring: str) -> tuple[str, list[tuple[str, str]]]:
    """The filters that select, as a query string and as pairs."""

    def work() -> tuple[str, list[tuple[str, str]]]:
        kept = _without(querystring, _is_display)
        return kept, _pairs(kept)

    return work() if len(querystring) <= INLINE_CHARACTERS else await asyncio.to_thread(work)


def has_free_sql(querystring: str) -> bool:
    """Whether these filters hold a person's own SQL, which is shown only to those who may execute SQL."""
    return "_where" in _names(querystring)


def naming_more(querystring: str) -> list[tuple[str, str]]:
    """The filters, as (key, value), that name more than the rows and columns of their own table: SQL, other tables, a
    search index, the filters of another job, whatever another plugin's filter names."""
    if not any(map(_names_more, _names(querystring))):
        return []
    return [(key, value) for key, value in _pairs(querystring) if _names_more(key)]


def masked(querystring: str) -> str:
    """The filters without the values of those that name more than the rows and columns of their own table."""
    kept = urlencode([(key, "…" if _names_more(key) else value) for key, value in _pairs(querystring)])
    return kept.replace(quote("…"), "…")


def is_foreign(key: str) -> bool:
    """Whether a filter of this key can only be another plugin's."""
    return key.startswith("_") and "__" not in key and key not in CORE_FILTERS and not key.startswith("_search_")


def _names_more(key: str) -> bool:
    return key.startswith("_") and "__" not in key and key not in NAMING_OWN_ROWS


def _names(querystring: str) -> set[str]:
    """The keys; quick for thousands of rows."""
    return {unquote_plus(pair.partition("=")[0]) for pair in querystring.lstrip("?").split("&")}


def _pairs(querystring: str) -> list[tuple[str, str]]:
    return parse_qsl(querystring.lstrip("?"), keep_blank_values=True)


def _is_display(key: str) -> bool:
    return key in DISPLAY_KEYS or (key.startswith("_facet_") and key[7:] in _facet_types())


def _facet_types() -> set[str]:
    """The types of facets that this Datasette and its plugins know: `_facet_<type>=` asks for one."""
    from datasette.plugins import pm  # not at the top: see registry

    return {kind.type for kinds in pm.hook.register_facet_classes() for kind in kinds}


async def resolve(
    datasette: Any,
    db: Any,
    table: str,
    querystring: str,
    actor: dict[str, Any] | None,
    *,
    columns: Sequence[str] | None = None,
) -> Selection:
    """The rows that these filters select, for this actor.

    :param columns: the table's columns, if they are known
    :raises BadSelection: names the filter that Datasette would not understand
    :raises NotAllowed: `_where` without the right to execute SQL, `_through` a table the actor may not view
    """
    require_short(querystring)
    kept, pairs = await _taken_apart(querystring)
    if columns is None:
        columns = await compat.read(db, lambda conn: sqlite.columns(conn, table, hidden=True))
    index = None
    if any(key.startswith("_search") for key, _ in pairs):
        index = await compat.fts_table(datasette, db, table)
    if index is not None and not await compat.can_view(datasette, actor, db.name, index):
        raise NotAllowed("You may not search this table: its search index is private")
    has_search = index is not None
    filtered = _check(pairs, columns, table, has_search=has_search)
    clauses, params, words = _column_filters(pairs, table)
    answers = await _hook_filters(datasette, db, table, kept, actor)
    for key in dict.fromkeys(key for key, _ in pairs if is_foreign(key)):
        if not await _is_taken(datasette, db, table, pairs, key, answers, actor):
            raise BadSelection(
                f"Unknown filter {key!r}. Correct or remove it: a misspelt filter would select every row"
            )
    for hook_clauses, hook_params, hook_words in answers:
        clauses += hook_clauses
        params |= hook_params
        words += hook_words
    where = f"({' and '.join(clauses)})" if clauses else ""
    # a retry stays within its job's selection, which may hold a person's SQL too
    is_free_sql = any(key in ("_where", "_ingest_retry") or is_foreign(key) for key, _ in pairs)
    selection = Selection(kept, where, params, _in_words(words), is_free_sql, filtered)
    await _try_out(db, table, selection)
    return selection


def _check(pairs: list[tuple[str, str]], columns: Sequence[str], table: str, *, has_search: bool) -> tuple[str, ...]:
    """The columns that the filters name.

    :raises BadSelection: for a filter that Datasette would ignore or misread
    """
    filtered: list[str] = []
    _check_numbers(pairs)
    names = set(map(sqlite.fold, columns))
    lookups = set(Filters._filters_by_key)
    for key, value in pairs:
        if not key.startswith("_") or ("__" in key and sqlite.fold(key.rsplit("__", 1)[0]) in names):
            column, lookup = key.rsplit("__", 1) if "__" in key else (key, "exact")
            if sqlite.fold(column) not in names:
                raise BadSelection(
                    f"The filter {key}={value} names no column of {table!r}; its columns are {', '.join(columns)}"
                )
            if lookup not in lookups:
                raise BadSelection(
                    f"The filter {key!r} has an unknown operator __{lookup}. Operators are {', '.join(sorted(lookups))}"
                )
            if lookup in ("in", "notin") and value.startswith("["):
                _check_json_list(key, value)
            filtered.append(column)
        elif key in CORE_FILTERS or key.startswith("_search_"):
            if key.startswith("_search") and key != "_searchmode" and not has_search:
                raise BadSelection(f"{key}: the table {table!r} has no full-text search")
            if key == "_through":
                _check_through(value)
            if key in COMPANIONS and COMPANIONS[key] not in dict(pairs):
                raise BadSelection(f"{key} needs {COMPANIONS[key]} beside it")
        elif sqlite.fold(key) in names:
            raise BadSelection(f"The column {key!r} begins with an underscore: write the filter as {key}__exact")
        elif not is_foreign(key):
            raise BadSelection(
                f"Unknown filter {key!r}. Correct or remove it: a misspelt filter would select every row"
            )
    _check_given_once([key for key, _ in pairs])
    return tuple(dict.fromkeys(filtered))


def _check_numbers(pairs: list[tuple[str, str]]) -> None:
    """Refuse a filter of more than MOST_VALUES values."""
    numbers: Counter[str] = Counter()
    for key, value in pairs:
        if key not in ("_row", "_rowid"):
            numbers[key] += value.count(",") + 1 if key.endswith(("__in", "__notin")) else 1
    for key, number in numbers.items():
        if number > MOST_VALUES:
            raise BadSelection(f"The filter {key!r} has {number:,} values; {MOST_VALUES:,} is the most")


def _check_through(value: str) -> None:
    try:
        given = json.loads(value)
    except (ValueError, RecursionError):
        given = None
    kinds: dict[str, Any] = {"table": str, "column": str, "value": (str, int, float)}
    if not isinstance(given, dict) or not all(isinstance(given.get(name), kind) for name, kind in kinds.items()):
        raise BadSelection(
            "Datasette does not understand these filters: _through is a JSON object of table, column and value"
        )


def _check_given_once(keys: Sequence[str]) -> None:
    for key in GIVEN_ONCE:
        if keys.count(key) > 1:
            raise BadSelection(f"The filter {key} is given {keys.count(key)} times, and only the first would count")
    searched = [key for key in dict.fromkeys(keys) if key.startswith("_search_") and "__" not in key]
    if "_search" in keys and searched:
        raise BadSelection(f"Beside _search the filter {searched[0]} would not count: search by one of them")
    again = next((key for key in searched if keys.count(key) > 1), None)
    if again is not None:
        raise BadSelection(f"The filter {again} is given {keys.count(again)} times, and only the first would count")


def _check_json_list(key: str, value: str) -> None:
    try:
        items = json.loads(value)
    except (ValueError, RecursionError):
        raise BadSelection(f"The filter {key}: {value!r} is not a JSON list") from None
    if not isinstance(items, list) or not all(isinstance(item, (str, int, float)) or item is None for item in items):
        raise BadSelection(f"The filter {key}: {value!r} is not a JSON list of values")


def _column_filters(pairs: list[tuple[str, str]], table: str) -> tuple[list[str], dict[str, Any], list[str]]:
    own = sorted(pair for pair in pairs if not (pair[0].startswith("_") and "__" not in pair[0]))
    filters = Filters(own)
    try:
        clauses, params = filters.build_where_clauses(table)
    except ValueError as problem:  # a number of thousands of digits
        raise BadSelection(f"Datasette does not understand these filters: {problem}") from None
    words = [
        Filters._filters_by_key[lookup].human_clause(column, value) for column, lookup, value in filters.selections()
    ]
    return list(clauses), dict(params), words


async def _hook_filters(
    datasette: Any, db: Any, table: str, querystring: str, actor: dict[str, Any] | None
) -> list[Answer]:
    from datasette.plugins import pm  # not at the top: see registry

    request = compat.fake_request(f"/{tilde_encode(db.name)}/{tilde_encode(table)}?{querystring}", actor)
    found = []
    try:
        answers = pm.hook.filters_from_request(request=request, table=table, database=db.name, datasette=datasette)
        for number, answer in enumerate(answers):
            arguments = await _answer(answer)
            if arguments is None:
                continue
            given = {name: _storable(value) for name, value in arguments.params.items()}
            clauses, params = renamed(f"h{number}_", list(arguments.where_clauses), given)
            found.append((clauses, params, _hook_words(arguments, clauses)))
    except Forbidden as problem:
        raise NotAllowed(f"You may not use these filters: {problem}") from None
    except (BadRequest, KeyError, ValueError, TypeError) as problem:
        raise BadSelection(f"Datasette does not understand these filters: {message_of(problem)}") from None
    except Exception as problem:
        status = getattr(problem, "status", None)  # DatasetteError, on both lines
        if status == 403:
            raise NotAllowed(f"You may not use these filters: {message_of(problem)}") from None
        if status is None:
            raise
        raise BadSelection(f"Datasette does not understand these filters: {message_of(problem)}") from None
    return found


def _storable(value: Any) -> Any:
    """A parameter of a filter as SQLite stores it.

    :raises ValueError: where it cannot
    """
    if isinstance(value, bool):
        return int(value)
    if value is not None and not isinstance(value, (int, float, str, bytes)):
        raise ValueError(f"a plugin's filter compares with {type(value).__name__}, which SQLite has no value for")
    return value


async def _is_taken(
    datasette: Any,
    db: Any,
    table: str,
    pairs: list[tuple[str, str]],
    key: str,
    answers: list[Answer],
    actor: dict[str, Any] | None,
) -> bool:
    """Whether a plugin takes this key: without it, the answers of the plugins are others."""
    without = urlencode([pair for pair in pairs if pair[0] != key])
    try:
        return await _hook_filters(datasette, db, table, without, actor) != answers
    except (BadSelection, NotAllowed):  # the rest needs it
        return True


async def may_use_foreign(
    datasette: Any, db: Any, table: str, key: str, value: str, actor: dict[str, Any] | None
) -> bool:
    """Whether a plugin takes this filter of its own, and takes it from this actor."""
    pairs = [(key, value)]
    try:
        answers = await _hook_filters(datasette, db, table, urlencode(pairs), actor)
    except (BadSelection, NotAllowed):
        return False
    return await _is_taken(datasette, db, table, pairs, key, answers, actor)


async def _answer(answer: Any) -> Any:
    value = await await_me_maybe(answer)
    return await value if inspect.isawaitable(value) else value


def _hook_words(arguments: Any, clauses: list[str]) -> list[str]:
    return list(arguments.human_descriptions) or list(clauses)


_SQL_PIECES = re.compile(
    r"""("(?:[^"]|"")*"|'(?:[^']|'')*'|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/)|:(\w+)""", re.DOTALL
)


def renamed(prefix: str, clauses: list[str], params: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The clauses with their parameters renamed: core's `_through` names its value :p0, as the first column filter does."""
    if not params:
        return clauses, params

    def with_prefix(match: re.Match[str]) -> str:
        name = match[2]
        return f":{prefix}{name}" if name in params else match[0]

    return [_SQL_PIECES.sub(with_prefix, clause) for clause in clauses], {
        prefix + name: value for name, value in params.items()
    }


def _in_words(words: list[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


async def _try_out(db: Any, table: str, selection: Selection) -> None:
    """Let SQLite compile the condition, so that a fault is known before anything starts."""
    if not selection.where:
        return

    def compile_it(conn: sqlite3.Connection) -> None:
        # without our parentheses too, as the table page runs it: only they would make sense of `1) or (1`
        for condition in (selection.where[1:-1], selection.where):
            conn.execute(f"select 1 from {sqlite.quote(table)} where {condition} limit 0", dict(selection.params))

    try:
        await compat.read(db, compile_it, limit_ms=WAIT_MS)
    except compat.Interrupted as problem:
        raise BadSelection(f"These filters are too slow: {problem}. Choose simpler ones") from None
    except compat.Unavailable:
        raise
    except (sqlite3.Error, OverflowError) as problem:
        raise BadSelection(f"SQLite does not understand these filters: {problem}") from None


async def is_empty(db: Any, table: str, selection: Selection, *, limit_ms: float) -> bool | None:
    """Whether no row is selected now; None when finding out takes longer than `limit_ms`.

    :raises BadSelection: as `count`
    """
    return await _ask(db, "not exists (select 1 {rows})", table, selection, bool, limit_ms)


async def count(db: Any, table: str, selection: Selection, *, limit_ms: float) -> int | None:
    """How many rows are selected now, exactly; None when counting takes longer than `limit_ms`.

    :raises BadSelection: when a person's own SQL fails on some row
    """
    return await _ask(db, "count(*) {rows}", table, selection, int, limit_ms)


async def _ask(
    db: Any, term: str, table: str, selection: Selection, kind: Callable[[Any], T], limit_ms: float
) -> T | None:
    """What a query says of the selected rows."""
    rows = f"from {sqlite.quote(table)}" + (f" where {selection.where}" if selection.where else "")
    sql = "select " + term.replace("{rows}", rows)
    try:
        return await compat.read(
            db, lambda conn: kind(conn.execute(sql, dict(selection.params)).fetchone()[0]), limit_ms=limit_ms
        )
    except compat.Interrupted:
        return None
    except compat.Unavailable:
        raise
    except sqlite3.Error as problem:
        raise BadSelection(f"These filters fail on some row: {problem}") from None
