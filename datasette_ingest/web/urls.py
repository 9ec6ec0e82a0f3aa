"""The addresses of our pages, and of Datasette's pages that ours link to, each with `base_url` in it exactly once."""

from __future__ import annotations

import functools
import hashlib
import json
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from datasette.utils import tilde_encode

from . import format

PLUGIN = "datasette_ingest"
STATIC = pathlib.Path(__file__).parent.parent / "static"
LONGEST_ADDRESS = 4_000
"""Characters of a querystring that a link may have: proxies refuse request lines far above it."""


class Links:
    """The addresses in one Datasette. Databases and tables are given by name, not encoded."""

    def __init__(self, datasette: Any) -> None:
        self._urls = datasette.urls
        self._datasette = datasette

    def _ours(self, page: str, *parts: str, query: str = "") -> str:
        path: str = self._urls.path("/-/" + "/".join((page, *map(tilde_encode, parts))))
        return _with(path, query)

    def _route(self, database: str) -> str:
        db = self._datasette.databases.get(database)
        return str(db.route) if db is not None else database

    def choose(self, database: str, table: str, filters: str = "") -> str:
        return self._ours("ingest", self._route(database), table, query=filters)

    def form(self, database: str, table: str, slug: str, filters: str = "") -> str:
        return self._ours("ingest", self._route(database), table, slug, query=filters)

    def form_step(self, database: str, table: str, slug: str, step: str, filters: str = "") -> str:
        """Where the form is sent before it starts a job. `step`: `preview` or `try`."""
        return self._ours("ingest", self._route(database), table, slug, step, query=filters)

    def jobs(self, database: str | None = None, **query: Any) -> str:
        parts = [self._route(database)] if database is not None else []
        return self._ours("ingest-jobs", *parts, query=query_string(query))

    def job(self, database: str, job_id: int) -> str:
        return self._ours("ingest-jobs", self._route(database), str(job_id))

    def job_json(self, database: str, job_id: int) -> str:
        return self.job(database, job_id) + ".json"

    def errors(self, database: str, job_id: int, **query: Any) -> str:
        return self._ours("ingest-jobs", self._route(database), str(job_id), "errors", query=query_string(query))

    def words(self, slug: str, word: str = "") -> str:
        """What the outcome words of an enrichment mean; at one of them."""
        page = self._ours("ingest-words", slug)
        return page + "#" + quote(word, safe="") if word else page

    def stats(self, database: str) -> str:
        return self._ours("ingest-stats", self._route(database))

    def report(self, page: str, database: str, table: str) -> str:
        """A page about the results of an enrichment in a table (`Enrichment.report`)."""
        return self._ours(page, self._route(database), table)

    def link_report(self, database: str, table: str, **query: Any) -> str:
        return self._ours("ingest-links", self._route(database), table, query=query_string(query))

    def link_report_csv(self, database: str, table: str, **query: Any) -> str:
        return self._ours("ingest-links", self._route(database), table, "report.csv", query=query_string(query))

    def search(self, database: str, **query: Any) -> str:
        return self._ours("ingest-search", self._route(database), query=query_string(query))

    def body(self, database: str, sha1hex: str) -> str:
        """A kept file."""
        return self._ours("ingest-body", self._route(database), sha1hex)

    def thumbnail(self, database: str, sha1hex: str) -> str:
        """The picture of its first page."""
        return self._ours("ingest-thumbnail", self._route(database), sha1hex)

    def failures_csv(self, database: str, job_id: int) -> str:
        return self.job(database, job_id) + "/missed.csv"

    def rerun(self, database: str, table: str, slug: str, filters: str, job_id: int, *, is_retry: bool = False) -> str:
        """The form filled with this job's settings, or with those of a retry, for these filters."""
        name = "_retry" if is_retry else "_again"
        return self.form(database, table, slug, "&".join(filter(None, [filters, f"{name}={job_id}"])))

    def log(self, database: str, job_id: int) -> str:
        """The whole log of a job, as Datasette shows the table that holds it."""
        query = urlencode({"job_id__exact": job_id, "message__notblank": 1, "_sort_desc": "id"})
        return self.table(database, "_enrichment_progress", query)

    def act(self, database: str, job_id: int, verb: str) -> str:
        return self._ours("ingest-jobs", self._route(database), str(job_id), verb)

    def instance(self) -> str:
        path: str = self._urls.instance()
        return path

    def database(self, database: str) -> str:
        path: str = self._urls.database(database)
        return path

    def table(self, database: str, table: str, query: str = "") -> str:
        path: str = self._urls.table(database, table)
        return _with(path, query)

    def row(self, database: str, table: str, key: Any) -> str | None:
        """The page of one row; None where its key has a part that no Datasette URL can hold (NULL, a BLOB)."""
        path = row_path(key)
        return None if path is None else str(self._urls.row(database, table, path))

    def rows(self, database: str, table: str, keys: Sequence[Any], has_pages: bool = True) -> list[dict[str, Any]]:
        """Rows by key, each with its label and the address of its page (None where it has none).

        :param has_pages: False where Datasette's row pages would find other rows
        """
        return [{"label": key_label(key), "url": self.row(database, table, key) if has_pages else None} for key in keys]

    def static(self, name: str) -> str:
        """A static file. Its address changes with its content, so browsers may cache it."""
        path: str = self._urls.static_plugins(PLUGIN, name)
        return _with(path, _digest(name))


def _with(path: str, query: str) -> str:
    return path + "?" + query if query else path  # PrefixedUrlString + str stays one; an f-string would not


@functools.cache
def _digest(name: str) -> str:
    return hashlib.sha1((STATIC / name).read_bytes(), usedforsecurity=False).hexdigest()[:8]


def row_path(key: Any) -> str | None:
    """A row's key, as the engine gives it, in the form of Datasette's row pages: parts joined by commas."""
    parts: Sequence[Any] = key if isinstance(key, (list, tuple)) else [key]
    if not parts or not all(isinstance(part, (str, int, float)) for part in parts):
        return None
    return ",".join(tilde_encode(str(part)) for part in parts)


def key_label(key: Any) -> str:
    """A row's key for reading: parts joined by commas, NULL spelled out."""
    parts = key if isinstance(key, (list, tuple)) else [key]
    return ", ".join("NULL" if part is None else format.cell(part) for part in parts)


def query_string(pairs: Mapping[str, Any]) -> str:
    """A query string of the pairs that have a value."""
    return urlencode({key: value for key, value in pairs.items() if value is not None})


def missed_filter(column: str, good: Collection[str]) -> str:
    """The table page's filter for rows that have an outcome in this column, and none of these."""
    return column_filter(column, json.dumps(sorted(good)), "notin")


def column_filter(column: str, value: str, operator: str = "exact") -> str:
    """The table page's filter for rows whose column is exactly this value, or compares otherwise with it."""
    return urlencode([(f"{column}__{operator}", value)])
