"""What Datasette's pages have on this line, and requests that did not come over the network."""

from __future__ import annotations

import functools
from typing import Any

from datasette.utils.asgi import Request

from .line import is_1_0


def has_page_tops(datasette: Any) -> bool:
    """Whether plugins can add to the top of a table's page and a row's (hooks `top_table`, `top_row`)."""
    return is_1_0(datasette)


def database_color(datasette: Any, database: str | None) -> str:
    """The colour by which Datasette's pages tell databases apart, in hexadecimal: a database's own on 1.0, red on 0.65,
    blue for what is no database."""
    db = datasette.databases.get(database) if database is not None else None
    return "276890" if db is None else getattr(db, "color", "ff0000")


class _ParsedOnce(Request):  # type: ignore[misc, unused-ignore]
    """A request whose query string, which may hold thousands of rows, is not parsed anew by each hook that reads it."""

    @functools.cached_property
    def args(self) -> Any:
        return super().args


def fake_request(path_and_query: str, actor: dict[str, Any] | None) -> Request:
    """A GET request of this actor that did not come over the network."""
    request: Request = _ParsedOnce.fake(path_and_query)
    request.scope["actor"] = actor
    return request
