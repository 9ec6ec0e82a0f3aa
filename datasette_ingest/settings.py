"""Plugin configuration -> a frozen Settings. Every default of the plugin stands here, once."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SOURCES = ("live", "wayback", "spn2")
AVAILABLE_SOURCES = ("live",)
"""The sources that this version can ask; the others are reserved words of the configuration."""

SECRET_SETTINGS = frozenset({"spn2_access_key", "spn2_secret_key"})
PROCESS_SETTINGS = frozenset({"allow_networks", "proxy", "insecure_hosts"}) | SECRET_SETTINGS
"""Permissions of a process: never stored with a job."""


JOB_SETTINGS = frozenset(
    {
        "sources",
        "user_agent",
        "contact",
        "concurrency",
        "per_host_concurrency",
        "per_host_delay",
        "robots",
        "timeout",
        "deadline",
        "max_body_bytes",
        "max_hops",
        "max_redirects",
        "max_candidates",
        "max_files",
        "max_fileset_bytes",
        "max_age_days",
        "max_capture_age_days",
        "blocklist",
        "doi_resolver",
        "http2",
        "rules",
    }
)
"""Settings that are stored with a job when they are given for it; the rest belong to a process or a server."""


class SettingsError(ValueError):
    """The configuration cannot be used; the message names the setting and what to write instead."""


def _setting(default: Any, meaning: str, **kwargs: Any) -> Any:
    """A field whose metadata holds its meaning, a sentence for the documentation."""
    return field(default=default, metadata={"meaning": meaning}, **kwargs)


@dataclass(frozen=True)
class Settings:
    """What `plugins: datasette-ingest:` may say. Times are seconds, sizes bytes, unless the name says otherwise."""

    run_jobs: bool = _setting(True, "Run jobs inside the server. Say false where `datasette ingest work` runs them.")
    sources: tuple[str, ...] = _setting(
        ("live",), "Where to look, in this order. This version knows `live`: the web as it is now."
    )
    user_agent: str | None = _setting(
        None, "What the crawler calls itself. Empty: `datasette-ingest/` and its version."
    )
    contact: str | None = _setting(
        None, "A URL or `mailto:` address that is added to the user agent, so that a server's owner can reach you."
    )
    concurrency: int = _setting(
        32, "Requests under way at once, over all hosts; one that has become slow gives its place to others."
    )
    per_host_concurrency: int = _setting(2, "Requests under way at once to one host.")
    per_host_delay: float = _setting(
        0.5, "Seconds between the beginnings of two requests to one host. A server that asks for more gets it."
    )
    robots: str = _setting("obey", "`obey` robots.txt, or `ignore` it.")
    allow_networks: tuple[str, ...] = _setting(
        (), "Address ranges that row URLs may reach although they are not public: `10.0.0.0/8`, `127.0.0.0/8:8080`."
    )
    proxy: str | None = _setting(None, "A forward proxy for all fetching.")
    timeout: float = _setting(30.0, "Seconds of silence before a server counts as gone.")
    deadline: float = _setting(120.0, "Seconds that one request may take in all.")
    max_body_bytes: int = _setting(128 * 1024 * 1024, "Largest file that is taken, in bytes, unpacked.")
    max_hops: int = _setting(8, "Pages that are read for one row: its URL and each link followed.")
    max_redirects: int = _setting(10, "Redirects that are followed within one request.")
    max_candidates: int = _setting(5, "Links that are fetched for one row.")
    max_files: int = _setting(
        200, "Files of one dataset that are fetched. A dataset with more of them is only listed. 0 fetches none."
    )
    max_fileset_bytes: int = _setting(
        1024 * 1024 * 1024, "Bytes of one dataset that are fetched. A larger one is only listed."
    )
    max_age_days: float = _setting(
        30.0, "A hit, or a miss that cannot change, younger than this many days is used again. 0 always fetches."
    )
    max_capture_age_days: float | None = _setting(
        None, "An archive's capture older than this many days counts as missing."
    )
    lookahead: int = _setting(2000, "Rows that a job of ours has at work or waiting for their hosts at once.")
    spool_dir: str | None = _setting(
        None, "A folder for large bodies while they are looked at. Empty: the system's temporary folder."
    )
    max_spool_bytes: int = _setting(
        4 * 1024**3, "Bytes that large bodies may take there together; when they are used up, fetches wait."
    )
    yield_ms: float = _setting(
        50.0, "Milliseconds that a job inside the server waits for pages which are being answered, before it writes."
    )
    lease_seconds: float = _setting(60.0, "Seconds for which a process reserves rows; renewed while it works on them.")
    batch_seconds: float = _setting(
        900.0, "Seconds of work after which rows without an answer are in error. Waiting is not counted."
    )
    allow: Mapping[str, Any] | bool | None = _setting(
        None, "Who may enrich: a Datasette allow block, for the instance, a database or a table. Empty: root only."
    )
    publish_results: bool = _setting(
        False, "Let everyone who may see the database read the result tables, whatever tables they came from."
    )
    rules: tuple[Mapping[str, Any], ...] = _setting(
        (), "Link rules of your own: how a site that is not recognised [names its files](candidates.md)."
    )
    blocklist: tuple[str, ...] = _setting((), "Texts; a URL that holds one of them is skipped.")
    http2: bool = _setting(
        False,
        "Ask servers that refuse HTTP/1.1 over HTTP/2. Needs the extra `http2`; not available through a proxy.",
    )
    insecure_hosts: tuple[str, ...] = _setting((), "Hosts whose TLS certificate is not checked.")
    store: str | None = _setting(None, "Where the files that were found are kept.")
    fulltext: bool = _setting(True, "Fill a table for full-text search.")
    thumbnails: bool = _setting(True, "Keep pictures of first pages.")
    cdx_url: str = _setting("https://web.archive.org/cdx/search/cdx", "Address of the archive's index.")
    wayback_url: str = _setting("https://web.archive.org/web", "Address of the archive's captures.")
    spn2_url: str = _setting("https://web.archive.org/save", "Address of the archive's capture service.")
    spn2_access_key: str | None = _setting(
        None, 'Key of the archive\'s capture service, as `{"$env": "NAME"}` or `{"$file": "PATH"}`.', repr=False
    )
    spn2_secret_key: str | None = _setting(None, "Its secret, in the same form.", repr=False)
    grobid_url: str | None = _setting(None, "Address of a GROBID service.")
    doi_resolver: str = _setting("https://doi.org/", "Where a DOI in a cell is looked up.")
    kafka: Mapping[str, Any] | None = _setting(None, "Connection to a fleet of workers.", repr=False)


NOT_YET = frozenset(
    {
        "store",
        "max_capture_age_days",
        "grobid_url",
        "kafka",
        "spn2_access_key",
        "spn2_secret_key",
        "cdx_url",
        "wayback_url",
        "spn2_url",
        "fulltext",
        "thumbnails",
    }
)
"""Settings whose feature this version does not have: setting one is an error, not a silence."""

_FIELDS = {f.name: f for f in dataclasses.fields(Settings)}
_POSITIVE = {
    "concurrency": 1,
    "per_host_concurrency": 1,
    "per_host_delay": 0,
    "timeout": 0.001,
    "deadline": 0.001,
    "max_body_bytes": 1,
    "max_hops": 1,
    "max_redirects": 0,
    "max_candidates": 0,
    "max_files": 0,
    "max_fileset_bytes": 0,
    "max_age_days": 0,
    "lookahead": 1,
    "max_spool_bytes": 1,
    "yield_ms": 0,
    "lease_seconds": 0.1,
    "batch_seconds": 0.1,
}


def load(raw: Mapping[str, Any] | None) -> Settings:
    """The plugin's block of a configuration file as Settings.

    :raises SettingsError: for an unknown key or a value of the wrong kind, with the key's name
    """
    values: dict[str, Any] = {}
    for key, value in (raw or {}).items():
        if key not in _FIELDS:
            raise SettingsError(f"datasette-ingest has no setting {key!r}. Settings: {', '.join(sorted(_FIELDS))}")
        values[key] = _checked(key, value)
    return Settings(**values)


def override(settings: Settings, pairs: Mapping[str, Any]) -> Settings:
    """`settings` with some values replaced, checked like a configuration file's."""
    changed = {}
    for key, value in pairs.items():
        if key not in _FIELDS:
            raise SettingsError(f"datasette-ingest has no setting {key!r}. Settings: {', '.join(sorted(_FIELDS))}")
        changed[key] = _checked(key, value)
    return dataclasses.replace(settings, **changed)


def _checked(key: str, value: Any) -> Any:
    default = _FIELDS[key].default
    if key in SECRET_SETTINGS or (key == "proxy" and isinstance(value, Mapping)):
        value = _secret(key, value)
    elif key == "proxy" and isinstance(value, str) and "@" in value:
        raise SettingsError('proxy: give an address with a password as {"$env": "NAME"} or {"$file": "PATH"}')
    if key in NOT_YET and value not in (None, False, [], (), {}, default):
        raise SettingsError(
            f"{key}: this version of datasette-ingest does not have that feature yet; remove the setting"
        )
    if value is None:
        if default is None or _FIELDS[key].default_factory is not dataclasses.MISSING:
            return None
        raise SettingsError(f"{key}: a value is missing (the default is {default!r})")
    if key == "allow":
        if not isinstance(value, (Mapping, bool)):
            raise SettingsError("allow: expected a Datasette allow block, such as {id: root}, or true or false")
        return value
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise SettingsError(f"{key}: expected true or false, not {value!r}")
        return value
    if isinstance(default, tuple):
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise SettingsError(f"{key}: expected a list, not {value!r}")
        return _checked_list(key, tuple(items))
    if isinstance(default, (int, float)):
        return _checked_number(key, value, default)
    if key == "robots" and value not in ("obey", "ignore"):
        raise SettingsError(f"robots: expected obey or ignore, not {value!r}")
    if key == "kafka":
        return value
    if not isinstance(value, str):
        raise SettingsError(f"{key}: expected text, not {value!r}")
    if key == "doi_resolver" and not value.startswith(("http://", "https://")):
        raise SettingsError(f"doi_resolver: expected an http or https URL, not {value!r}")
    if key == "spool_dir" and not os.path.isdir(value):
        raise SettingsError(f"spool_dir: {value!r} is not a directory")
    return value


def _checked_number(key: str, value: Any, default: float) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SettingsError(f"{key}: expected a number, not {value!r}")
    if isinstance(default, int) and not isinstance(default, bool):
        if value != int(value):
            raise SettingsError(f"{key}: expected a whole number, not {value!r}")
        value = int(value)
    if not _POSITIVE[key] <= value < math.inf:
        raise SettingsError(f"{key}: expected a number of at least {_POSITIVE[key]}, not {value!r}")
    return value if isinstance(value, int) else float(value)


def _checked_list(key: str, items: tuple[Any, ...]) -> tuple[Any, ...]:
    if key == "rules":
        if not all(isinstance(item, Mapping) for item in items):
            raise SettingsError("rules: expected a list of rules, each with a name, a place and what to look for")
        return items
    if not all(isinstance(item, str) for item in items):
        raise SettingsError(f"{key}: expected a list of texts, not {list(items)!r}")
    if key == "sources":
        for item in items:
            if item not in SOURCES:
                raise SettingsError(f"sources: unknown source {item!r}; known are {', '.join(SOURCES)}")
            if item not in AVAILABLE_SOURCES:
                raise SettingsError(f"sources: this version of datasette-ingest cannot ask {item!r} yet; use live")
        if not items:
            raise SettingsError("sources: name at least one source, such as live")
    if key == "allow_networks":
        for item in items:
            _check_network(item)
    return items


def _check_network(item: str) -> None:
    network, _, port = item.partition("/")[2].partition(":") if "/" in item else ("", "", "")
    address, prefix = item.partition("/")[0], network
    try:
        ipaddress.ip_network(f"{address.strip('[]')}/{prefix}" if prefix else item, strict=False)
        if port and not 0 < int(port) < 65536:
            raise ValueError
    except ValueError:
        raise SettingsError(
            f"allow_networks: {item!r} is not a network; write an address range such as 10.0.0.0/8 or 127.0.0.0/8:8080"
        ) from None


def _secret(key: str, value: Any) -> str | None:
    """A secret's text from `{"$env": NAME}` or `{"$file": PATH}`; a literal one is refused, since Datasette shows its
    configuration to visitors."""
    if value is None:
        return None
    if isinstance(value, Mapping) and set(value) == {"$env"}:
        found = os.environ.get(str(value["$env"]))
        if found is None:
            raise SettingsError(f"{key}: the environment variable {value['$env']} is not set")
        return found
    if isinstance(value, Mapping) and set(value) == {"$file"}:
        try:
            return pathlib.Path(str(value["$file"])).read_text("utf-8").strip()
        except OSError as problem:
            raise SettingsError(f"{key}: cannot read {value['$file']}: {problem.strerror}") from None
    raise SettingsError(
        f'{key}: write it as {{"$env": "NAME"}} or {{"$file": "PATH"}}; Datasette shows its configuration to visitors'
    )
