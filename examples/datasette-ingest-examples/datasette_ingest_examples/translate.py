"""Translate a column by an HTTP API that limits how often it may be asked.

The API: `POST {address}/translate` with `{"text", "language"}` and a bearer token answers 200 `{"translation"}`, 422 for
a text that it will not translate, 401 or 403 for a key that it does not know, 429 with `Retry-After` when it was asked
too often.
"""

from __future__ import annotations

import email.utils
import functools
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import pydantic
from datasette_ingest import BatchOutcome, Cancel, ColumnField, Enrichment, Pause, RowError, RowUpdate, get_secret

ADDRESS_VARIABLE = "EXAMPLE_TRANSLATE_URL"
SECRET = "EXAMPLE_TRANSLATE_KEY"
KEPT_SECONDS = 30 * 86_400
REST = timedelta(minutes=1)
"""How long to leave the API alone when it does not say."""
LONGEST_REST = timedelta(days=1)


class Refused(Exception):
    """The API will not translate this text, however often it is asked. The message is its answer."""


class Answer(pydantic.BaseModel):
    """What the API says of one text."""

    translation: str


class Translate(Enrichment):
    """Writes a column's text in another language; asks for each text once, whatever happens to the job meanwhile."""

    slug, name, description = "translate", "Translate", "Translate a column by an HTTP API"
    batch_size = 10
    max_open_batches = 4  # so many requests at a time: a batch asks for one row after the other

    # Which server is asked, and with which key, is for those who run this one to say. A Config is filled in by
    # whoever may start a job: an address there would send the key wherever they like.
    class Config(pydantic.BaseModel, extra="forbid"):
        column: str = ColumnField(title="Column")
        language: str = pydantic.Field("en", title="Into which language", pattern="^[a-z]{2}$")
        output: str = pydantic.Field("translated", title="Output column", min_length=1)

    def __init__(self) -> None:
        # One instance serves all jobs, and every database counts its jobs from 1.
        self._clients: dict[tuple[str, int], httpx.AsyncClient] = {}

    def columns(self, config: Config) -> list[str]:
        return [config.column]

    def check_output(self, config: Config, columns: Sequence[str]) -> None:
        if config.output.lower() == config.column.lower():
            raise ValueError("output: must be another column than the one that is read, whose text would be lost")

    async def initialize(  # type: ignore[override]
        self, datasette: Any, db: Any, job_id: int, actor_id: str | None
    ) -> None:
        # What is missing stops the job here with one sentence; in enrich_batch it would be every row's error.
        address = os.environ.get(ADDRESS_VARIABLE)
        if not address:
            raise Cancel(f"Put the API's address into the environment variable {ADDRESS_VARIABLE}")
        key = await get_secret(datasette, SECRET, actor_id)
        self._clients[db.name, job_id] = httpx.AsyncClient(
            base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=30
        )

    async def close(self, db: Any, job_id: int) -> None:  # type: ignore[override]
        await self._clients.pop((db.name, job_id)).aclose()

    async def enrich_batch(
        self, db: Any, rows: list[Mapping[str, Any]], pks: list[Any], config: Config, job: Any
    ) -> BatchOutcome:
        client = self._clients[db.name, job.id]
        updates, errors = [], []
        for pk, row in zip(pks, rows, strict=True):
            text = row[config.column]
            if not isinstance(text, str) or not text.strip():
                updates.append(RowUpdate(pk, {config.output: None}))  # nothing to translate
                continue
            try:
                # A Pause gives the whole batch back. Its rows that were answered already are found here next time.
                translation = await job.cache.get_or_set(
                    cache_key(text, config.language),
                    functools.partial(ask, client, text, config.language),
                    ttl=KEPT_SECONDS,
                )
            except Refused as refusal:
                errors.append(RowError(pk, str(refusal)))
            else:
                updates.append(RowUpdate(pk, {config.output: translation}))
        return BatchOutcome(updates=updates, errors=errors)


async def ask(client: httpx.AsyncClient, text: str, language: str) -> str:
    """The text in that language.

    :raises Refused: when the API says no to this text
    :raises Pause: when it would say no to any text just now: the rows are not to blame, so none is put in error
    """
    try:
        response = await client.post("/translate", json={"text": text, "language": language})
    except httpx.TransportError as problem:
        raise Pause(f"The API cannot be reached ({type(problem).__name__})", utc_now() + REST) from problem
    if response.status_code in (429, 503):
        raise Pause("The API asks for a rest", resume_time(response.headers.get("Retry-After"), utc_now()))
    if response.status_code in (401, 403):
        raise Pause(f"The API does not take the key: mend the secret {SECRET}, then resume")  # no time: for a person
    if response.status_code != 200:
        raise Refused(f"The API answered {response.status_code}: {response.text[:200]}")
    try:
        return Answer.model_validate_json(response.content).translation
    except pydantic.ValidationError as problem:
        raise Refused(f"The API's answer cannot be read: {response.text[:200]}") from problem


def utc_now() -> datetime:
    """The time of day; a Pause whose time has no zone is read as UTC, too."""
    return datetime.now(timezone.utc)


def cache_key(text: str, language: str) -> str:
    """Everything that the answer depends on, and short however long the text is."""
    return hashlib.sha256(json.dumps([language, text]).encode()).hexdigest()


def resume_time(retry_after: str | None, now: datetime) -> datetime:
    """When a `Retry-After` header (seconds or a date: RFC 9110 §10.2.3) lets us ask again; within a day."""
    text = (retry_after or "").strip()
    try:
        if text.isdecimal():
            return now + timedelta(seconds=min(int(text), LONGEST_REST.total_seconds()))
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return now + REST
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return min(max(moment, now), now + LONGEST_REST)
