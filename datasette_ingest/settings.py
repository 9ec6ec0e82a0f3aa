"""The plugin's configuration, `plugins: datasette-ingest:`, as one model: the crawler's settings and the plugin's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import click
import pydantic
from pydantic import Field

from .ingest.remote.settings import KafkaSettings as KafkaSettings
from .ingest.settings import Count, CrawlSettings, Texts, check_keys, check_together, secret_text, sentence
from .masking import mask

SECRET_SETTINGS = frozenset({"spn2_access_key", "spn2_secret_key", "store_access_key", "store_secret_key"})

_WITH_PASSWORDS = ("proxy", "grobid_url")
"""Addresses that may have a user and a password in them."""

_SERVICE_SETTINGS = SECRET_SETTINGS | {
    "cdx_url",
    "wayback_url",
    "cdx_per_minute",
    "replay_per_minute",
    "spn2_url",
    "spn2_concurrency",
}
_DOCUMENT_SETTINGS = {
    "store",
    "store_endpoint",
    "store_region",
    "fulltext",
    "thumbnails",
    "grobid_url",
    "grobid_concurrency",
    "grobid_timeout",
    "grobid_consolidate",
}
_PROCESS_SETTINGS = {
    *("allow_networks", "proxy", "insecure_hosts", "spool_dir", "max_spool_bytes"),
    *_SERVICE_SETTINGS,
    *_DOCUMENT_SETTINGS,
}
JOB_SETTINGS = (frozenset(CrawlSettings.model_fields) - _PROCESS_SETTINGS) | {"max_age_days"}
"""Settings that are stored with a job when they are given for it. The rest belong to a process or a server."""

Time = Annotated[float, Field(ge=0.1)]


class SettingsError(click.ClickException, ValueError):
    """The configuration cannot be used. The message names the setting and what to write instead, without passwords.

    Of click's kind, so that a Datasette that cannot start with it says so in one line, without a traceback.
    """

    def __init__(self, message: str) -> None:
        super().__init__(mask(message))


class Settings(CrawlSettings):
    """The whole configuration. Times are seconds, sizes bytes, unless the name says otherwise."""

    run_jobs: bool = Field(
        True, description="Run jobs inside the server. Set it to false if `datasette ingest work` runs them."
    )
    max_running_jobs: Count = Field(
        8, description="Jobs that run at once in one process, over all databases. The others wait, in turn by person."
    )
    max_age_days: float = Field(
        30.0,
        ge=0,
        description="A hit, or a miss that cannot change, younger than this many days is used again. With 0 none "
        "is; other misses rest until their next try all the same.",
    )
    lookahead: Count = Field(
        2000, description="Rows of an ingest job that are at work or wait for their hosts in one process."
    )
    yield_ms: float = Field(
        50.0,
        ge=0,
        description="Milliseconds that a job inside the server waits, before it writes, for pages that are being answered.",
    )
    lease_seconds: Time = Field(
        60.0, description="Seconds for which a process reserves rows; renewed while it works on them."
    )
    batch_seconds: Time = Field(
        900.0, description="Seconds of work after which rows without an answer are in error. Waiting is not counted."
    )
    allow: Mapping[str, Any] | bool | None = Field(
        None,
        description="Who may enrich: a Datasette allow block, for the instance, a database or a table. Empty: root only.",
    )
    publish_results: bool = Field(
        False,
        description="Let everyone who may view the database read the result tables, whichever tables they came from.",
    )
    trusted_origins: Texts = Field(
        (),
        description="Further origins under which visitors see this site: for a proxy that changes the `Host` header. "
        "`https://data.example.org`, no path.",
    )
    kafka: KafkaSettings | None = Field(
        None, description="The brokers of [a fleet of workers](fleet.md): `bootstrap` and [more](#settings-of-kafka)."
    )

    @pydantic.field_validator(*SECRET_SETTINGS, *_WITH_PASSWORDS, mode="before")
    @classmethod
    def _without_secrets(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        """A secret's text. A literal one is refused, since Datasette shows its configuration to visitors."""
        is_address = info.field_name in _WITH_PASSWORDS
        if value is None or (is_address and isinstance(value, str) and "@" not in value):
            return value
        return secret_text(value, "an address with a password" if is_address else "it")

    @pydantic.field_validator("kafka", mode="before")
    @classmethod
    def _reads_kafka(cls, value: Any) -> Any:
        if value is None or isinstance(value, KafkaSettings):
            return value
        if not isinstance(value, Mapping):
            raise ValueError("expected settings, such as {bootstrap: kafka.example.org:9092}")
        unknown = [key for key in value if key not in KafkaSettings.model_fields]
        if unknown:
            raise ValueError(f"there is no {unknown[0]!r}; write {', '.join(KafkaSettings.model_fields)}")
        try:
            return KafkaSettings.model_validate(dict(value))
        except pydantic.ValidationError as error:
            raise ValueError(sentence(error)) from None

    @pydantic.field_validator("allow", mode="before")
    @classmethod
    def _is_allow_block(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, (Mapping, bool)):
            raise ValueError("expected a Datasette allow block, such as {id: root}, or true or false")
        return value

    @pydantic.field_validator("trusted_origins")
    @classmethod
    def _are_origins(cls, value: Texts) -> Texts:
        for text in value:
            if text != "null" and not re.fullmatch(r"https?://[^\s/?#@*]+", text):
                raise ValueError(f"{text!r} is no origin: write a scheme and a host, such as https://data.example.org")
        return value

    def crawl(self, sources: Sequence[str] | None = None) -> CrawlSettings:
        """The crawler's part, by which jobs share a crawler.

        :param sources: to be asked instead of those of the configuration
        """
        values = {name: getattr(self, name) for name in CrawlSettings.model_fields}
        return CrawlSettings.model_construct(**values | ({"sources": tuple(sources)} if sources else {}))


def load(raw: Mapping[str, Any] | None) -> Settings:
    """The plugin's block of a configuration file as Settings.

    :raises SettingsError: for an unknown key or a value of the wrong kind, with the key's name
    """
    given = dict(raw or {})
    for key in given:
        if key not in Settings.model_fields:
            close = get_close_matches(str(key), Settings.model_fields, n=1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            raise SettingsError(
                f"datasette-ingest has no setting {key!r}.{meant} Settings: {', '.join(sorted(Settings.model_fields))}"
            )
    try:
        return Settings.model_validate(given)
    except pydantic.ValidationError as error:
        raise SettingsError(sentence(error)) from None


def override(settings: Settings, pairs: Mapping[str, Any]) -> Settings:
    """`settings` with some values replaced, checked like a configuration file's.

    :raises SettingsError: for an unknown key or a value of the wrong kind, with the key's name
    """
    changed = load(pairs)
    together = settings.model_copy(update={name: getattr(changed, name) for name in changed.model_fields_set})
    try:
        check_together(together)
    except ValueError as problem:
        raise SettingsError(str(problem)) from None
    return together


def check_sources(settings: Settings, sources: Sequence[str] | None = None) -> None:
    """:param sources: to be asked instead of those of the configuration
    :raises SettingsError: when one of them needs keys that the settings do not have
    """
    try:
        check_keys(settings, sources or settings.sources)
    except ValueError as problem:
        raise SettingsError(str(problem)) from None
