"""Files and the works they belong to, as fatcat's importers take them (https://guide.fatcat.wiki/entity_file.html).

A record has the fields of fatcat's file entity. `dois` and `cdx` are what its importer of matched files reads beside
them; `ext_ids` and `release_stage` name the release where its identifier in fatcat is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import ValidationError

from ..identifiers import find_doi
from ..model import IngestRequest, IngestResult, digest_name
from ..page.biblio import DOI_MISMATCH, Biblio, doi_matches

MIMETYPES = {
    "pdf": frozenset({"application/pdf"}),
    "xml": frozenset({"application/xml", "application/jats+xml", "application/tei+xml", "text/xml"}),
}
"""Wanted type -> the types of files that fatcat has as file entities of it."""
EXT_IDS = ("doi", "pmid", "pmcid", "arxiv", "doaj", "dblp")
"""Identifiers by which a release is looked up, in this order."""

REASONS = {
    "other-type": "neither a PDF nor XML is wanted",
    "no-file-meta": "size and digests of the file are not known",
    "wrong-mimetype": "the file is of another type than the wanted one",
    "no-release": "the request names neither a release nor one of " + ", ".join(EXT_IDS),
    "hash-mismatch": "the file is not the one that the request expects",
    "doi-mismatch": "the page that led to the file is about another work",
    "single-page": "the PDF has one page, so it is most likely an abstract",
    "bad-request": "further fields of the request are not what they are called",
    "no-url": "the file's URL contains a password",
}
"""Why a hit is left out -> what that means."""


class LeftOut(Exception):
    """A hit that is not handed on; its argument is one of REASONS."""


def record_of(result: IngestResult, *, pages: int | None) -> dict[str, Any]:
    """The record of a hit.

    :param pages: of the PDF, where they were counted
    :raises LeftOut:
    """
    try:
        request = IngestRequest.from_json({**result.request.to_json(), "base_url": result.request.base_url})
    except ValidationError:
        raise LeftOut("bad-request") from None
    found = result.file_meta
    if request.ingest_type not in MIMETYPES:
        raise LeftOut("other-type")
    if found is None or found.size_bytes <= 0 or result.terminal is None:
        raise LeftOut("no-file-meta")
    if found.mimetype not in MIMETYPES[request.ingest_type]:
        raise LeftOut("wrong-mimetype")
    release = _release(request)
    if not release:
        raise LeftOut("no-release")
    if not _has_expected_hash(request, found.digests):
        raise LeftOut("hash-mismatch")
    if _is_about_another(request, result):
        raise LeftOut("doi-mismatch")
    if request.ingest_type == "pdf" and pages == 1:
        raise LeftOut("single-page")
    urls = _urls(request, result)
    if any("***@" in each["url"] for each in urls):
        raise LeftOut("no-url")
    doi = release.get("ext_ids", {}).get("doi")
    captured = {} if result.cdx is None else {"dt": result.cdx.datetime}
    return {
        "sha1": found.sha1hex,
        "sha256": found.sha256hex,
        "md5": found.md5hex,
        "size": found.size_bytes,
        "mimetype": found.mimetype,
        "urls": urls,
        **release,
        **({"dois": [doi]} if doi else {}),
        "cdx": [{"url": result.terminal.url, **captured}],
        "edit_extra": _edit_extra(request),
    }


def _release(request: IngestRequest) -> dict[str, Any]:
    """What names the release: its identifier in fatcat, else identifiers of others. Empty where there is neither."""
    named = request.fatcat or {}
    stage = request.release_stage or named.get("release_stage")
    staged = {"release_stage": stage} if stage else {}
    if named.get("release_ident"):
        return {"release_ids": [str(named["release_ident"])], **_known_ids(request), **staged}
    known = _known_ids(request)
    return {"release_ids": [], **known, **staged} if known else {}


def _known_ids(request: IngestRequest) -> dict[str, Any]:
    given = request.ext_ids or {}
    known = {name: str(given[name]).strip() for name in EXT_IDS if given.get(name)}
    if "doi" in known:
        doi = find_doi(known.pop("doi"))
        known = {"doi": doi, **known} if doi else known
    return {"ext_ids": known} if known else {}


def _has_expected_hash(request: IngestRequest, digests: Mapping[str, str]) -> bool:
    """Several requests share a result, and each may expect another file."""
    expected = {
        digest_name(str(name)): str(value).strip().lower() for name, value in (request.expect_hash or {}).items()
    }
    return all(digests[name] == value for name, value in expected.items() if name in digests)


def _is_about_another(request: IngestRequest, result: IngestResult) -> bool:
    doi = (request.ext_ids or {}).get("doi")
    known = {field.name for field in fields(Biblio)} - {"authors"}
    if result.html_meta is not None and result.html_meta.biblio and isinstance(doi, str):
        biblio = Biblio(**{name: value for name, value in result.html_meta.biblio.items() if name in known})
        return doi_matches(doi, biblio) is False
    return DOI_MISMATCH in result.warnings


def _urls(request: IngestRequest, result: IngestResult) -> list[dict[str, str]]:
    """Where the file is: its own URL, and the archive's capture if an archive delivered it."""
    assert result.terminal is not None
    rel = request.rel or ("publisher" if request.source == "doi" else "web")
    urls = [{"url": result.terminal.url, "rel": rel}]
    if result.archive_url is not None:
        urls.append({"url": result.archive_url, "rel": "webarchive"})
    return urls


def _edit_extra(request: IngestRequest) -> dict[str, Any]:
    """Where it comes from, in fatcat's names."""
    extra = dict(request.edit_extra or (request.fatcat or {}).get("edit_extra") or {})
    extra |= {"ingest_request_source": request.actor} if request.actor != "unknown" else {}
    if request.source and request.source_id:
        extra |= {"link_source": request.source, "link_source_id": find_doi(request.source_id) or request.source_id}
    return extra
