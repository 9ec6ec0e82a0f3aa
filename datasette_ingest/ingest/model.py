"""What goes in and what comes out: requests, results, and the decisions about time that need nothing else."""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from .errors import NOT_TRIED, IngestError, RetryClass
from .linkrule import LinkRule
from .urls import parse

MIB = 1024 * 1024

SOURCES = ("live",)
"""Where content may come from."""
ROBOTS = ("obey", "ignore")

MAX_ATTEMPTS = 10
"""Tries after which a row is no longer due by itself."""

WAITS: dict[RetryClass, tuple[timedelta, timedelta] | None] = {
    RetryClass.NOW: (timedelta(seconds=60), timedelta(hours=8)),
    RetryClass.SOON: (timedelta(hours=8), timedelta(days=8)),
    RetryClass.LATER: (timedelta(days=30), timedelta(days=30)),
    RetryClass.NEVER: None,
}
"""First wait and longest wait of each class; a wait doubles with every attempt."""


@dataclass(frozen=True)
class CrawlSettings:
    """How to behave towards servers, and how much of what they send to take. Times in seconds, sizes in bytes."""

    user_agent: str = "datasette-ingest"
    concurrency: int = 32
    per_host_concurrency: int = 2
    per_host_delay: float = 0.5
    robots: str = "obey"
    """`obey` or `ignore`."""
    allow_networks: tuple[str, ...] = ()
    """`CIDR` or `CIDR:port` (`[IPv6 CIDR]:port`) that may be reached though not part of the public internet."""
    proxy: str | None = None
    timeout: float = 30.0
    """Longest silence: of a name server, a connection attempt, a handshake, and between two reads."""
    deadline: float = 120.0
    """Longest duration of one request, from its start to the last byte; waiting for a turn does not count."""
    max_body_bytes: int = 128 * MIB
    max_hops: int = 8
    """Pages for one row: the base URL and each link followed."""
    max_redirects: int = 10
    max_candidates: int = 5
    blocklist: tuple[str, ...] = ()
    insecure_hosts: tuple[str, ...] = ()
    """Host names whose TLS certificate is not verified."""
    http2: bool = False
    """Ask servers that refuse HTTP/1.1 over HTTP/2. Needs the library h2; not through a proxy."""
    max_files: int = 200
    """Files of one dataset that are fetched; a dataset with more of them is only listed. 0: no file is fetched."""
    max_fileset_bytes: int = 1024 * MIB
    """Bytes of one dataset that are fetched; a larger one is only listed."""
    doi_resolver: str = "https://doi.org/"
    spool_dir: str | None = None
    max_spool_bytes: int = 4096 * MIB
    """Disk that large bodies may take together; a fetch waits when it is used up."""
    sources: tuple[str, ...] = ("live",)
    rules: tuple[LinkRule, ...] = ()
    """Link rules beside the built-in ones."""

    def __post_init__(self) -> None:
        """Raises ValueError, with the setting's name, for what this version cannot keep."""
        missing = [source for source in self.sources if source not in SOURCES]
        if missing or not self.sources:
            raise ValueError(f"sources: {', '.join(missing) or 'none given'}; there is {', '.join(SOURCES)}")
        if self.http2 and importlib.util.find_spec("h2") is None:
            raise ValueError("http2: a library is missing; pip install 'datasette-ingest[http2]'")
        if self.http2 and self.proxy is not None:
            raise ValueError("http2: not available through a proxy; remove one of http2 and proxy")
        if self.robots not in ROBOTS:
            raise ValueError(f"robots: {self.robots!r} is neither obey nor ignore")
        if not self.user_agent.strip() or not self.user_agent.isprintable():
            raise ValueError(f"user_agent: {self.user_agent!r} cannot stand in a header")
        for name in ("concurrency", "per_host_concurrency", "max_hops", "max_body_bytes", "max_spool_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is less than 1")
        for name in ("max_files", "max_fileset_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} is less than 0")
        for name in ("timeout", "deadline"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: {getattr(self, name)} is not a time")
        _check_url("doi_resolver", self.doi_resolver)
        if self.proxy is not None:
            _check_url("proxy", self.proxy)


def _check_url(name: str, url: str) -> None:
    try:
        parse(url)
    except IngestError as error:
        raise ValueError(f"{name}: {error.message}") from error


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """One row's wish. `base_url` is the cell as it stands in the row: text, bytes, a number or None."""

    ingest_type: str
    base_url: Any
    source: str = ""
    source_id: str = ""
    actor: str = "unknown"
    release_stage: str | None = None
    force_recrawl: bool = False
    ext_ids: Mapping[str, str] | None = None
    fatcat: Mapping[str, Any] | None = None
    expect_hash: Mapping[str, str] | None = None
    """Hex digests by name (sha1, sha256, md5) that the file must have."""
    as_of: str | None = None
    max_capture_age_days: float | None = None
    rel: str | None = None
    oa_status: str | None = None
    edit_extra: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The request as a JSON object; fields that were not given are left out."""
        values: dict[str, Any] = {
            "ingest_type": self.ingest_type,
            "base_url": json_cell(self.base_url),
            "source": self.source,
            "source_id": self.source_id,
            "actor": self.actor,
        }
        for name in _OPTIONAL_REQUEST_FIELDS:
            value = getattr(self, name)
            if value is not None and value is not False:
                values[name] = dict(value) if isinstance(value, Mapping) else value
        return values


_OPTIONAL_REQUEST_FIELDS = (
    "release_stage",
    "force_recrawl",
    "ext_ids",
    "fatcat",
    "expect_hash",
    "as_of",
    "max_capture_age_days",
    "rel",
    "oa_status",
    "edit_extra",
)


def digest_name(text: str) -> str:
    """The name of an algorithm however it is spelt: `SHA-256`, `sha256hex` -> `sha256`."""
    return text.strip().lower().replace("-", "").removesuffix("hex")


@dataclass(frozen=True)
class FileMeta:
    """Identity of a body after transfer and content decoding. Digests in lower-case hex."""

    sha1hex: str
    sha256hex: str
    md5hex: str
    size_bytes: int
    mimetype: str

    @property
    def digests(self) -> dict[str, str]:
        """Hex digests by the names that `digest_name` gives."""
        return {"md5": self.md5hex, "sha1": self.sha1hex, "sha256": self.sha256hex}

    def to_json(self) -> dict[str, Any]:
        return {
            "size_bytes": self.size_bytes,
            "md5hex": self.md5hex,
            "sha1hex": self.sha1hex,
            "sha256hex": self.sha256hex,
            "mimetype": self.mimetype,
        }


@dataclass(frozen=True)
class Terminal:
    """The last answer for a row: its URL, when it came (14 digits, UTC), its code, and the body's digest if kept."""

    url: str
    dt: str
    status_code: int
    sha1hex: str | None = None


@dataclass(frozen=True)
class Candidate:
    """A link that may lead to the wanted file, the rule that found it, and what spoke for it or against it."""

    url: str
    rule: str
    reason: str = ""


@dataclass(frozen=True)
class CandidateOutcome:
    """What became of a candidate. `outcome` is a status slug or `not-tried`; ranks count from 1, best first."""

    rank: int
    url: str
    rule: str
    outcome: str
    status_code: int | None = None
    reason: str = ""
    """What spoke for the link or against it, where it was found by what it says."""


@dataclass(frozen=True, slots=True)
class HtmlMeta:
    """What a page says of itself and of its work: the page that is a hit, or the one that led to it."""

    sha1hex: str
    """Of the page's own body."""
    scope: str | None = None
    """A value of extract.scope.Scope, or the slug of what stands there instead; None if only its head was read."""
    word_count: int | None = None
    """Words of its own text; None if only its head was read."""
    biblio: Mapping[str, Any] = field(default_factory=dict)
    """Bibliographic facts as extract.biblio.Biblio.to_json gives them."""
    status: str = "success"
    """How the reading of the page went."""

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {"sha1hex": self.sha1hex, "status": self.status}
        if self.scope is not None:
            values |= {"scope": self.scope, "word_count": self.word_count}
        if self.biblio:
            values["biblio"] = dict(self.biblio)
        return values


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of a dataset: what the platform says of it, and what was seen."""

    path: str
    """Its name with the folders it lies in; a label without `..`, control characters or a slash at its beginning."""
    url: str | None = None
    """Where it can be fetched; None if the list does not say, or names what is no web address."""
    size: int | None = None
    checksums: Mapping[str, str] = field(default_factory=dict)
    """Hex digests by name: md5, sha1, sha256."""
    mimetype: str | None = None
    status: str = NOT_TRIED
    """`success` if it was fetched and is what the list says; `not-tried`; else the slug of what was in the way."""
    meta: FileMeta | None = None
    """What came when it was fetched."""

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "path": self.path,
            "size": self.size,
            "checksums": dict(self.checksums),
            "mimetype": self.mimetype,
            "url": self.url,
            "status": self.status,
        }
        if self.meta is not None:
            values["sha1hex"] = self.meta.sha1hex
        return values


@dataclass(frozen=True, slots=True)
class Fileset:
    """The files of one dataset."""

    platform: str
    """Whose API listed them (dataverse, figshare, …), or how the page itself did: json-ld, signposting."""
    platform_id: str | None
    """What the platform calls the dataset."""
    files: tuple[FileEntry, ...] = ()

    @property
    def total_size(self) -> int | None:
        """The bytes of all files together; None if the size of one is not known."""
        sizes = [entry.size for entry in self.files if entry.size is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None

    def to_json(self) -> dict[str, Any]:
        return {
            "platform": self.platform,
            "platform_id": self.platform_id,
            "file_count": len(self.files),
            "total_size": self.total_size,
            "manifest": [entry.to_json() for entry in self.files],
        }


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The answer to one request. URLs in it are ASCII and carry no credentials."""

    request: IngestRequest
    hit: bool
    status: str
    error_message: str | None = None
    hops: tuple[str, ...] = ()
    """Every URL that was requested, in order."""
    terminal_url: str | None = None
    terminal_dt: str | None = None
    """When the terminal answer came: 14 digits, UTC."""
    terminal_status_code: int | None = None
    terminal_sha1hex: str | None = None
    file_meta: FileMeta | None = None
    warnings: tuple[str, ...] = ()
    via: str | None = None
    """The source that answered, for a miss the last one asked."""
    candidates: tuple[CandidateOutcome, ...] = ()
    next_try_class: RetryClass = RetryClass.NEVER
    retry_after: float | None = None
    """Seconds that the server asked to be left alone."""
    fileset: Fileset | None = None
    """For datasets: the files, also of a miss whose list was read."""
    html_meta: HtmlMeta | None = None
    """The first page on the way that named a work, or else the page that is the hit."""

    def to_json(self) -> dict[str, Any]:
        """The result as one JSON object; what is not known is left out, as readers of such results expect."""
        values: dict[str, Any] = {"request": self.request.to_json(), "hit": self.hit, "status": self.status}
        if self.error_message is not None:
            values["error_message"] = self.error_message
        if self.hops:
            values["hops"] = list(self.hops)
        if self.terminal_url is not None:
            values["terminal"] = {
                "terminal_url": self.terminal_url,
                "terminal_dt": self.terminal_dt,
                "terminal_status_code": self.terminal_status_code,
                "terminal_sha1hex": self.terminal_sha1hex,
            }
        if self.file_meta is not None:
            values["file_meta"] = self.file_meta.to_json()
        if self.fileset is not None:
            values["fileset"] = self.fileset.to_json()
        if self.html_meta is not None:
            values["html_meta"] = self.html_meta.to_json()
        if self.warnings:
            values["warnings"] = list(self.warnings)
        if self.via is not None:
            values["via"] = self.via
        if self.candidates:
            values["candidates"] = [
                {
                    "rank": c.rank,
                    "url": c.url,
                    "rule": c.rule,
                    "outcome": c.outcome,
                    "status_code": c.status_code,
                    "reason": c.reason or None,
                }
                for c in self.candidates
            ]
        return values


@dataclass(frozen=True)
class StoredResult:
    """A row of ingest_file_result that may be used instead of asking again. Times are ISO 8601 UTC."""

    hit: bool
    status: str
    terminal_url: str | None
    terminal_dt: str | None
    terminal_status_code: int | None
    terminal_sha1hex: str | None
    error_message: str | None
    updated: str
    attempts: int
    next_try: str | None
    warnings: tuple[str, ...] = field(default=())


def next_try(retry: RetryClass, attempts: int, *, now: datetime, retry_after: float | None = None) -> datetime | None:
    """When a miss is due again by itself, or None for never.

    `attempts` counts the tries so far, this one included. `retry_after` is what the server asked for, in seconds;
    a longer wish than our own wait is granted, a shorter one only in the class that exists for it.
    """
    waits = WAITS[retry]
    if waits is None or attempts >= MAX_ATTEMPTS:
        return None
    first, longest = waits
    wait: timedelta = min(first * 2 ** (max(attempts, 1) - 1), longest)
    if retry_after is not None:
        asked = timedelta(seconds=min(retry_after, WAITS_LONGEST.total_seconds()))
        wait = asked if retry is RetryClass.NOW else max(wait, asked)
    return now + wait


WAITS_LONGEST = timedelta(days=30)
"""No server's wish puts a row off for longer."""


_NO_PUNCTUATION = str.maketrans("", "", "-T:")


def iso_utc(moment: datetime) -> str:
    """`2026-11-30T13:42:56Z`: the form of every time in our tables but for terminal_dt."""
    return moment.astimezone(timezone.utc).isoformat()[:19] + "Z"


def digits14(moment: datetime) -> str:
    """`20261130134256`: the web archives' form of a time."""
    return moment.astimezone(timezone.utc).isoformat()[:19].translate(_NO_PUNCTUATION)


def json_cell(value: Any) -> Any:
    """A cell as JSON: bytes in Datasette's `{"$base64": true, "encoded": …}`, everything else as it is."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$base64": True, "encoded": base64.b64encode(bytes(value)).decode("ascii")}
    return value
