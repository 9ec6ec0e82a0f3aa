"""Requests and results, and the values that they consist of: frozen dataclasses with one JSON form each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    computed_field,
    model_validator,
)

from .cells import Cell
from .errors import NOT_TRIED, RetryClass, retry_of_status
from .facts import Cdx, Fact, FileMeta, FullText, Grobid, HtmlMeta, PdfMeta, Thumbnail, XmlMeta
from .json_object import IfAny, IfKnown, JsonObject, Sha1Hex, adapter

MIB = 1024 * 1024
LIVE_ONLY = ("live",)
"""The sources of a result that does not name them."""

TYPE_ALIASES = {"file": "pdf"}
"""Names of ingest types that older tables use."""


def _also(name: str, alias: str) -> Any:
    """A field that is read from a key of sandcrawler's as well."""
    return Field(validation_alias=AliasChoices(name, alias))


@dataclass(frozen=True, slots=True)
class IngestRequest(JsonObject):
    """A file that is wanted: its type, the URL where it is said to be, and who says so."""

    ingest_type: Annotated[str, AfterValidator(lambda name: TYPE_ALIASES.get(name, name))]
    """`pdf`, `xml`, `html` or `dataset`. `file` is read as `pdf`."""
    base_url: Cell
    """The cell as it is in the row: a URL or a DOI in any spelling, or anything else that a cell can hold."""
    source: Annotated[str, _also("source", "link_source")] = ""
    """Where the claim comes from, such as `doaj`. Also read from `link_source`."""
    source_id: Annotated[str, _also("source_id", "link_source_id")] = ""
    """The identifier there. Also read from `link_source_id`."""
    actor: Annotated[str, _also("actor", "ingest_request_source")] = "unknown"
    """Who asks. Also read from `ingest_request_source`."""
    release_stage: IfKnown[str] = None
    """The version of the work that it is said to be, such as `accepted`."""
    force_recrawl: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    """Whether stored results and archives' captures are passed over."""
    ext_ids: IfKnown[Mapping[str, Any]] = None
    """Identifiers of the work by name: `doi`, `pmcid`, …"""
    fatcat: IfKnown[Mapping[str, Any]] = None
    """`release_stage`, `release_ident`, `work_ident`, `edit_extra` of the work in fatcat."""
    expect_hash: IfKnown[Mapping[str, Any]] = None
    """Hex digests by name (sha1, sha256, md5) that the file must have."""
    as_of: IfKnown[str] = None
    """The time whose capture is wanted from an archive."""
    max_capture_age_days: IfKnown[float] = None
    """An archive's older capture counts as missing."""
    rel: IfKnown[str] = None
    """Not interpreted here; nor are `oa_status` and `edit_extra`."""
    oa_status: IfKnown[str] = None
    edit_extra: IfKnown[Mapping[str, Any]] = None
    received: Annotated[Mapping[str, Any] | None, Field(exclude=True)] = field(default=None, compare=False, repr=False)
    """The JSON object that this request was read from, unknown keys included. It is the request's JSON from then on."""

    @model_validator(mode="before")
    @classmethod
    def _keep_verbatim(cls, value: Any) -> Any:
        return {**value, "received": value} if isinstance(value, Mapping) else value

    def to_json(self) -> dict[str, Any]:
        """The request as a JSON object: as it was received, else without the fields that were not given."""
        return JsonObject.to_json(self) if self.received is None else dict(self.received)


def digest_name(text: str) -> str:
    """The name of a hash algorithm in any spelling: `SHA-256`, `sha256hex` -> `sha256`."""
    return text.strip().lower().replace("-", "").removesuffix("hex")


@dataclass(frozen=True, slots=True)
class Terminal(JsonObject):
    """The last answer on the way to a row's file. `terminal_` begins each key of its JSON."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True, alias_generator="terminal_{}".format)

    url: str
    dt: Annotated[str, StringConstraints(pattern="^[0-9]{14}$")] | None = None
    """When it came: 14 digits, UTC. Null if nothing came."""
    status_code: int | None = None
    """Its HTTP status. Null if nothing came."""
    sha1hex: Sha1Hex | None = None
    """Of its body. Null if the body was not read to its end."""
    archive_url: IfKnown[str] = None
    """Where a person sees it, if it is an archive's capture."""


@dataclass(frozen=True, slots=True)
class Candidate(JsonObject):
    """A link that may lead to the wanted file, and the rule that found it."""

    url: str
    rule: str
    reason: str = ""
    """What speaks for the link and against it, where it was found by its text."""


@dataclass(frozen=True, slots=True)
class CandidateOutcome(JsonObject):
    """What became of a candidate."""

    rank: int
    """From 1 for the best."""
    url: str
    rule: str
    outcome: str
    """A status slug, or `not-tried`."""
    status_code: int | None = None
    reason: str | None = None
    """What speaks for the link and against it, where it was found by its text."""


@dataclass(frozen=True, slots=True)
class FileEntry(JsonObject):
    """A file of a dataset: what its list says, and how fetching it ended."""

    path: str
    """Its name with its folders. It has no `..`, no control characters and no slash at its beginning."""
    url: str | None = None
    """Where it can be fetched. Null if the list gives no http(s) URL."""
    size: int | None = None
    """Bytes."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """Hex digests by name: md5, sha1, sha256."""
    mimetype: str | None = None
    status: str = NOT_TRIED
    """`success` if it was fetched and is what the list says, `not-tried`, or the status slug of what went wrong."""
    sha1hex: IfKnown[Sha1Hex] = None
    """Of the file that was fetched."""


@dataclass(frozen=True, slots=True)
class Fileset(JsonObject):
    """The files of one dataset."""

    platform: str
    """Whose API listed them (`dataverse`, `figshare`, …), or how the page did: `json-ld`, `signposting`."""
    platform_id: str | None
    """The dataset's identifier there."""
    files: Annotated[tuple[FileEntry, ...], Field(alias="manifest")] = ()
    file_meta: IfAny[FileMeta] = ()
    """Of the files that were fetched."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def file_count(self) -> int:
        return len(self.files)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_size(self) -> int | None:
        """Bytes of all files together. Null if the size of one is not known."""
        sizes = [entry.size for entry in self.files if entry.size is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None


@dataclass(frozen=True, slots=True)
class IngestResult(JsonObject):
    """The answer to one request. What is not known is left out.

    Its URLs are ASCII and contain no credentials, except those of `request`.
    """

    request: Annotated[IngestRequest, PlainSerializer(lambda request: request.to_json())]
    hit: bool
    status: str
    """`success` for a hit, else why there is none."""
    error_message: IfKnown[str] = None
    """The reason of a miss as a sentence."""
    hops: IfAny[str] = ()
    """Every URL that was requested, in order."""
    sources: Annotated[tuple[str, ...], Field(exclude_if=lambda value: value == LIVE_ONLY)] = LIVE_ONLY
    """The sources that were to be asked, in order. Left out if that is `live` only."""
    hop_sources: IfAny[str] = ()
    """The source that was asked for each of them, if they were not all the same."""
    terminal: IfKnown[Terminal] = None
    file_meta: IfKnown[FileMeta] = None
    cdx: IfKnown[Cdx] = None
    """The archive's index entry of the file, if an archive delivered it."""
    revisit_cdx: IfKnown[Cdx] = None
    """That of the later capture without a body of its own that led to it."""
    fileset: IfKnown[Fileset] = None
    """For datasets: the files. A miss has them, too, if their list was read."""
    html_meta: IfKnown[HtmlMeta] = None
    """The first page on the way that named a work, or the page that is the hit."""
    pdf_meta: IfKnown[PdfMeta] = None
    xml_meta: IfKnown[XmlMeta] = None
    grobid: IfKnown[Grobid] = None
    fulltext: Annotated[FullText | None, Field(exclude=True)] = None
    """The words of the file. Not in the JSON."""
    thumbnail: Annotated[Thumbnail | None, Field(exclude=True)] = None
    """A picture of its first page. Not in the JSON."""
    warnings: IfAny[str] = ()
    """Slugs of what is doubtful about a hit."""
    via: IfKnown[str] = None
    """The source that answered; for a miss the last source that was asked."""
    candidates: IfAny[CandidateOutcome] = ()
    """Links that were considered, best first."""
    updated: IfKnown[str] = None
    """When it came, ISO 8601 UTC. Only in exports."""
    retry_after: IfKnown[float] = None
    """The pause that the server asked for, in seconds."""
    next_try_class: Annotated[RetryClass, Field(exclude=True)] = RetryClass.NEVER
    """How soon a miss is tried again. Not in the JSON: `from_json` derives it from the status."""

    @classmethod
    def from_json(cls, value: Any) -> IngestResult:
        result: IngestResult = adapter(cls).validate_python(value)
        if result.hit:
            return result
        codes = [tried.status_code for tried in result.candidates if tried.outcome == result.status]
        code = codes[0] if codes else result.terminal_status_code
        return replace(result, next_try_class=retry_of_status(result.status, code))

    @property
    def file_facts(self) -> tuple[Fact, ...]:
        """What is known about the files that came. It is true whether or not this result replaces a stored hit."""
        files = () if self.fileset is None else self.fileset.file_meta
        captures = (self.cdx, self.revisit_cdx)
        own = (self.file_meta, *captures, self.pdf_meta, self.xml_meta, self.grobid, self.fulltext, self.thumbnail)
        return (*(fact for fact in own if fact is not None), *files)

    @property
    def terminal_url(self) -> str | None:
        return None if self.terminal is None else self.terminal.url

    @property
    def terminal_dt(self) -> str | None:
        return None if self.terminal is None else self.terminal.dt

    @property
    def terminal_status_code(self) -> int | None:
        return None if self.terminal is None else self.terminal.status_code

    @property
    def terminal_sha1hex(self) -> str | None:
        return None if self.terminal is None else self.terminal.sha1hex

    @property
    def archive_url(self) -> str | None:
        return None if self.terminal is None else self.terminal.archive_url


def json_schema(name: Literal["request", "result"]) -> dict[str, Any]:
    """The JSON Schema of an IngestRequest or an IngestResult. KeyError for another name."""
    kind: type[JsonObject] = {"request": IngestRequest, "result": IngestResult}[name]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **adapter(kind).json_schema(mode="serialization"),
    }
