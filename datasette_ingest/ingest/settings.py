"""The crawler's settings: every default, range and meaning, once."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field
from typing_extensions import Self

from .errors import IngestError
from .linkrule import LinkRule, link_rule
from .trackers import read_hosts
from .urls import parse

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SOURCES = ("live", "wayback", "spn2")

RULE_TARGETS = frozenset({"pdf", "xml", "html"})
"""The types of file that a link rule may lead to."""

Texts = tuple[str, ...]
Count = Annotated[int, Field(ge=1)]
CountOrNone = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0.001)]
Rate = Annotated[float, Field(gt=0)]

MISSING_KEYS = (
    "sources: the source spn2 needs the settings spn2_access_key and spn2_secret_key; "
    "https://archive.org/account/s3.php shows those of your account"
)


class CrawlSettings(pydantic.BaseModel):
    """How to behave towards servers, and how much of what they send to take. Times in seconds, sizes in bytes.

    A value that cannot be used is a pydantic.ValidationError (a ValueError); `sentence` says it in one line.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )

    sources: Texts = Field(
        ("live",),
        description="Where to look, in this order: `live`, the web as it is now; `wayback`, the captures of a web "
        "archive; `spn2`, the web archive's capture service, which captures the URL first.",
    )
    user_agent: str | None = Field(
        None, description="What the crawler calls itself. Empty: `datasette-ingest/` and its version."
    )
    contact: str | None = Field(
        None,
        description="A URL or `mailto:` address that is added to the user agent, so that a server's owner can reach you.",
    )
    concurrency: Count = Field(
        32,
        description="Requests at once, over all hosts. A request to a slow host is not counted, so that others can start.",
    )
    per_host_concurrency: Count = Field(2, description="Requests at once to one host.")
    per_host_delay: float = Field(
        0.5,
        ge=0,
        description="Seconds between the starts of two requests to one host. A server that asks for a longer pause gets it.",
    )
    robots: Literal["obey", "ignore"] = Field("obey", description="`obey` robots.txt, or `ignore` it.")
    allow_networks: Texts = Field(
        (),
        description="Address ranges that row URLs may reach although they are not public, each with or without a "
        "port: `10.0.0.0/8`, `127.0.0.1:8080`, `[fd00::/8]:443`.",
    )
    proxy: str | None = Field(None, description="A forward proxy for all fetching.", repr=False)
    timeout: Seconds = Field(
        30.0,
        description="Seconds of silence before a server counts as gone: of a name server, a connection attempt, a "
        "handshake, and between two reads.",
    )
    deadline: Seconds = Field(
        120.0,
        description="Seconds that one request may take, from its start to the last byte. Waiting for a turn does not count.",
    )
    max_body_bytes: Count = Field(128 * 2**20, description="Largest file that is fetched, in bytes, decompressed.")
    max_hops: Count = Field(8, description="Pages that are read for one row: its URL and each link followed.")
    max_redirects: CountOrNone = Field(10, description="Redirects that are followed within one request.")
    max_candidates: CountOrNone = Field(5, description="Links that are fetched for one row.")
    max_files: CountOrNone = Field(
        200,
        description="Files of one dataset that are fetched. A dataset with more of them is only listed. 0 fetches none.",
    )
    max_fileset_bytes: CountOrNone = Field(
        2**30, description="Bytes of one dataset that are fetched. A larger one is only listed."
    )
    spool_dir: str | None = Field(
        None, description="A folder for large bodies while they are processed. Empty: the system's temporary folder."
    )
    max_spool_bytes: Count = Field(
        4 * 2**30,
        description="Bytes that all large bodies may take there together. When they are used up, fetches wait.",
    )
    rules: tuple[LinkRule, ...] = Field(
        (), description="Link rules of your own: how a site that is not recognised [names its files](candidates.md)."
    )
    blocklist: Texts = Field((), description="Texts; a URL that contains one of them is skipped.")
    http2: bool = Field(
        False,
        description="Ask servers that refuse HTTP/1.1 over HTTP/2. Needs the extra `http2`; not available through a proxy.",
    )
    insecure_hosts: Texts = Field((), description="Hosts whose TLS certificate is not checked.")
    doi_resolver: str = Field("https://doi.org/", description="URL to which a DOI is appended.")
    cdx_url: str = Field("https://web.archive.org/cdx/search/cdx", description="Address of the archive's index.")
    wayback_url: str = Field("https://web.archive.org/web", description="Address of the archive's captures.")
    cdx_per_minute: Rate = Field(
        24.0, description="Most questions to the archive's index in a minute, of all jobs of a process."
    )
    replay_per_minute: Rate = Field(
        480.0, description="Most captures that are fetched in a minute, by all jobs of a process."
    )
    max_capture_age_days: float | None = Field(
        None, ge=0, description="An archive's capture older than this many days counts as missing."
    )
    spn2_url: str = Field("https://web.archive.org/save", description="Address of the archive's capture service.")
    spn2_access_key: pydantic.SecretStr | None = Field(
        None, description='Key of the archive\'s capture service, as `{"$env": "NAME"}` or `{"$file": "PATH"}`.'
    )
    spn2_secret_key: pydantic.SecretStr | None = Field(None, description="Its secret, in the same form.")
    spn2_concurrency: Count = Field(
        7,
        description="Captures that are open at once, of all jobs of a process. The service has fewer for some accounts.",
    )
    store: str | None = Field(
        None,
        description="Where [the files that were found are kept](bodies.md): a folder, or `s3://bucket/prefix`. Empty: nowhere.",
    )
    store_endpoint: str | None = Field(
        None, description="Address of the S3 service. Empty: `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, or Amazon's."
    )
    store_region: str | None = Field(
        None, description="Its region. Empty: `AWS_REGION`, `AWS_DEFAULT_REGION`, or `us-east-1`."
    )
    store_access_key: pydantic.SecretStr | None = Field(
        None, description='Its key, as `{"$env": "NAME"}` or `{"$file": "PATH"}`. Empty: `AWS_ACCESS_KEY_ID`.'
    )
    store_secret_key: pydantic.SecretStr | None = Field(
        None, description="Its secret, in the same form. Empty: `AWS_SECRET_ACCESS_KEY`."
    )
    fulltext: bool = Field(True, description="Keep the words of the files that were found, to be searched.")
    thumbnails: bool = Field(True, description="Keep pictures of first pages.")
    trackers_file: str | None = Field(
        None,
        description="A file that names hosts of advertisements and the like, one a line or as a hosts file: what a page "
        "loads from them is [not listed](documents.md#what-a-page-loads). Empty: the list that comes with the plugin.",
    )
    grobid_url: str | None = Field(
        None,
        description="Address of a [GROBID](documents.md#grobid) service, which reads PDFs: `http://localhost:8070`.",
        repr=False,
    )
    grobid_concurrency: Count = Field(
        4,
        description="PDFs that one process gives to GROBID at once. GROBID's own limit is 10 where it is not changed.",
    )
    grobid_timeout: Seconds = Field(180.0, description="Seconds after which GROBID is not waited for any longer.")
    grobid_consolidate: int = Field(
        0,
        ge=0,
        le=3,
        description="GROBID's `consolidateHeader`: whether it asks Crossref, or what it is configured for, about each work. "
        "0: no.",
    )

    @property
    def full_user_agent(self) -> str:
        """The User-Agent header: the crawler's name, and the contact that a server's owner may write to."""
        name = self.user_agent or f"datasette-ingest/{_version()}"
        return f"{name} (+{self.contact})" if self.contact else name

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _as_written(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        """What JSON and YAML write: a list or one text for a tuple, 1e9 for a whole number."""
        default = cls.model_fields[info.field_name or ""].default
        if isinstance(default, tuple) and isinstance(value, (str, list)):
            return (value,) if isinstance(value, str) else tuple(value)
        return int(value) if isinstance(value, float) and value.is_integer() else value

    @pydantic.field_validator("sources")
    @classmethod
    def _known_sources(cls, value: Texts) -> Texts:
        for source in value:
            if source not in SOURCES:
                raise ValueError(f"unknown source {source!r}; known are {', '.join(SOURCES)}")
        if not value:
            raise ValueError("name at least one source, such as live")
        return value

    @pydantic.field_validator("store_endpoint")
    @classmethod
    def _endpoint(cls, value: str | None) -> str | None:
        return None if value is None else parse_endpoint(value)

    @pydantic.field_validator("store_region")
    @classmethod
    def _region(cls, value: str | None) -> str | None:
        return None if value is None else parse_region(value)

    @pydantic.field_validator("user_agent", "contact")
    @classmethod
    def _fits_a_header(cls, value: str | None) -> str | None:
        if value is not None and not (value.isprintable() and value.strip()):
            raise ValueError(f"{value!r} cannot be sent in a header: write one line of text")
        return value

    @pydantic.field_validator("spn2_access_key", "spn2_secret_key", "store_access_key", "store_secret_key")
    @classmethod
    def _is_key(cls, value: pydantic.SecretStr | None) -> pydantic.SecretStr | None:
        if value is not None:
            check_key(value.get_secret_value())
        return value

    @pydantic.field_validator("allow_networks")
    @classmethod
    def _networks(cls, value: Texts) -> Texts:
        for text in value:
            parse_network(text)
        return value

    @pydantic.field_validator("proxy", "doi_resolver", "cdx_url", "wayback_url", "spn2_url", "grobid_url")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                parse(value)
        except IngestError:
            raise ValueError("expected an http or https URL, such as https://host.example/") from None
        return value

    @pydantic.field_validator("rules", mode="before")
    @classmethod
    def _read_rules(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or not all(isinstance(rule, (dict, LinkRule)) for rule in value):
            raise ValueError("expected a list of rules, each with a name, a place and what to look for")
        return tuple(rule if isinstance(rule, LinkRule) else link_rule(rule, targets=RULE_TARGETS) for rule in value)

    @pydantic.field_validator("http2")
    @classmethod
    def _has_library(cls, value: bool) -> bool:
        if value and importlib.util.find_spec("h2") is None:
            raise ValueError("a library is missing; pip install 'datasette-ingest[http2]'")
        return value

    @pydantic.field_validator("store")
    @classmethod
    def _is_place(cls, value: str | None) -> str | None:
        return None if value is None else parse_store(value)

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> Self:
        check_together(self)
        return self

    @pydantic.field_validator("trackers_file")
    @classmethod
    def _names_hosts(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                read_hosts(value)
        except OSError as problem:
            raise ValueError(f"{value!r} cannot be read: {problem.strerror}") from None
        return value

    @pydantic.field_validator("spool_dir")
    @classmethod
    def _is_directory(cls, value: str | None) -> str | None:
        if value is not None and not os.path.isdir(value):
            raise ValueError(f"{value!r} is not a directory")
        return value


def check_together(settings: CrawlSettings) -> None:
    """:raises ValueError: for settings that exclude each other"""
    if settings.http2 and settings.proxy is not None:
        raise ValueError("http2: not available through a proxy; remove one of http2 and proxy")
    if (settings.store_access_key is None) != (settings.store_secret_key is None):
        raise ValueError("store_access_key: it needs store_secret_key, and the other way round; set both, or none")


def check_keys(settings: CrawlSettings, sources: Sequence[str]) -> None:
    """:raises ValueError: when one of these sources needs keys that the settings do not have"""
    if "spn2" in sources and None in (settings.spn2_access_key, settings.spn2_secret_key):
        raise ValueError(MISSING_KEYS)


@cache
def _version() -> str:
    return version("datasette-ingest")


BUCKET_SCHEME = "s3://"
_BUCKET = re.compile(r"s3://([A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9])(?:/(.*))?", re.DOTALL)


def parse_store(text: str) -> str:
    """`s3://bucket/a//b/` -> `s3://bucket/a/b`; the path of a folder -> the same, absolute.

    :raises ValueError: for anything else, with what to write
    """
    if not text.isprintable() or not text.strip():
        raise ValueError("expected the path of a folder, or s3://bucket/prefix")
    if not re.match(r"s3:|[A-Za-z][A-Za-z0-9+.-]+:/", text, re.IGNORECASE):
        path = os.path.abspath(os.path.expanduser(text))
        if os.path.exists(path) and not os.path.isdir(path):
            raise ValueError(f"{text!r} is not a folder")
        return path
    found = _BUCKET.fullmatch(text)
    if found is None:  # the text is not repeated: it may hold a key
        raise ValueError("expected the path of a folder, or s3://bucket/prefix with the name of a bucket")
    parts = [part for part in (found[2] or "").split("/") if part]
    if not {".", ".."}.isdisjoint(parts):
        raise ValueError("a prefix may not have a part that is . or ..")
    if importlib.util.find_spec("obstore") is None:
        raise ValueError("a library is missing; pip install 'datasette-ingest[s3]'")
    return BUCKET_SCHEME + "/".join([found[1], *parts])


def parse_endpoint(text: str) -> str:
    """The address of a service, without a slash at its end.

    :raises ValueError: for what is no address, or has a password or a query
    """
    try:
        address = parse(text).rstrip("/")
    except IngestError:
        address = "?"
    if set(address) & set("@?#"):
        raise ValueError("expected the http or https URL of a service, such as https://s3.example.org, and no more")
    return address


def parse_region(text: str) -> str:
    """:raises ValueError: for what is no region's name"""
    if not re.fullmatch(r"[A-Za-z0-9-]+", text):
        raise ValueError(f"{text!r} is not the name of a region; write one such as eu-central-1")
    return text


def check_key(text: str) -> None:
    """:raises ValueError: for what is no key of a service"""
    if not (text and text.isascii() and text.isprintable() and not set(text) & {" ", ":"}):
        raise ValueError("this is not a key: expected letters, digits and the like, without spaces")


def parse_network(text: str) -> tuple[Network, int | None]:
    """`10.0.0.0/8`, `127.0.0.1:8080`, `::1/128`, `[fd00::/8]:443` -> network and port.

    :raises ValueError: for anything else, with what to write
    """
    match = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:]+):(\d+)", text.strip())
    network, port = (match[1] or match[3], match[2] or match[4]) if match else (text.strip(), None)
    try:
        found = ipaddress.ip_network(network, strict=False), None if port is None else int(port)
    except ValueError:
        found = None
    if found is None or (found[1] is not None and not 0 < found[1] < 65536):
        raise ValueError(
            f"{text!r} is not a network; write an address range such as 10.0.0.0/8, 127.0.0.1:8080 or [fd00::/8]:443"
        )
    return found


_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "greater_than_equal": "a number of at least {ge:g}",
    "string_type": "text",
    "tuple_type": "a list",
    "literal_error": "{expected}",
}
"""pydantic's name of an error -> what should stand there."""


def sentence(error: pydantic.ValidationError) -> str:
    """The first thing that is wrong, in one line that begins with the setting's name."""
    found = error.errors()[0]
    name, kind, context = next(iter(found["loc"]), ""), found["type"], found.get("ctx", {})
    if kind == "value_error":
        said = str(context["error"])
        return said if said.startswith(f"{name}: ") or not name else f"{name}: {said}"
    if found["input"] is None:
        return f"{name}: a value is missing"
    if len(found["loc"]) > 1 and kind == "string_type":
        return f"{name}: expected a list of texts; {found['input']!r} is not text"
    expected = _EXPECTED.get(kind, found["msg"]).format(**context).replace("'", "")
    return f"{name}: expected {expected}, not {found['input']!r}"


def secret_text(value: Any, what: str = "it") -> Any:
    """The text of a secret. A literal one is refused, since Datasette shows its configuration to visitors.

    :param what: what the message calls it
    """
    if isinstance(value, Mapping) and set(value) == {"$env"}:
        found = os.environ.get(str(value["$env"]))
        if found is None:
            raise ValueError(f"the environment variable {value['$env']} is not set")
        return found
    if isinstance(value, Mapping) and set(value) == {"$file"}:
        try:
            return pathlib.Path(str(value["$file"])).read_text("utf-8").strip()
        except OSError as problem:
            raise ValueError(f"cannot read {value['$file']}: {problem.strerror}") from None
    raise ValueError(
        f'write {what} as {{"$env": "NAME"}} or {{"$file": "PATH"}}; Datasette shows its configuration to visitors'
    )
