"""What the outcome words of an enrichment mean: a page of them, and the same where a word stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.asgi import Response

from .. import compat
from ..jobs.enrichment import COMMON_WORDS, Enrichment
from ..jobs.errors import NotAllowed
from . import requests
from .responses import render
from .urls import Links, column_filter


async def words(datasette: Any, request: Any) -> Response:
    """Every outcome word of an enrichment, for whoever may view the instance: it says nothing of any table."""
    requests.require_method(request, "GET")
    if not await compat.can_view(datasette, request.actor):
        raise NotAllowed("You may not view this Datasette")
    enrichment = await requests.enrichment_of(datasette, request)
    context = {"enrichment": enrichment, "words": {**COMMON_WORDS, **enrichment.words}}
    return await render(datasette, request, "ingest_words.html", context, database=None)


def about(links: Links, enrichment: Enrichment | None, outcome: str) -> dict[str, str] | None:
    """What a template shows of a word, or of a case of one: its sentences, what a case is called, and where they stand.
    None where nothing is said of it."""
    found = None if enrichment is None else enrichment.explain(outcome)
    if enrichment is None or found is None:
        return None
    name, word = found
    return {"label": word.label, "says": word.sentences, "url": links.words(enrichment.slug, name)}


def cases(
    links: Links,
    enrichment: Enrichment | None,
    outcome: str,
    counts: Mapping[str, int],
    rows_url: str | None,
    code_column: str | None,
) -> list[dict[str, Any]]:
    """The cases of an outcome word, most frequent first.

    :param counts: rows by case, of all words
    :param rows_url: the page of the rows with this word, which has a query string
    :param code_column: the column of that page's table by which a case is selected; None: the cases are no links
    """
    found = []
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        explained = enrichment.explain(name) if enrichment and name.startswith(f"{outcome}:") else None
        if explained is None or explained[0] != name:
            continue
        where = explained[1].where if code_column and rows_url else ()
        conditions = [column_filter(str(code_column), value, operator) for operator, value in where]
        url = "&".join([str(rows_url), *conditions]) if conditions else None
        found.append({"name": name, "count": count, "url": url, "about": about(links, enrichment, name)})
    return found
