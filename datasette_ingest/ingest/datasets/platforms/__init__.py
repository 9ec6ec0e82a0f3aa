"""Data platforms with a public API, one module each. The first that recognises a URL or page lists its dataset."""

from __future__ import annotations

from . import archive_org, dataverse, dryad, figshare, invenio, osf
from .base import ApiRequest, Dataset, Landing, ListingPage, Recognise

PLATFORMS: tuple[Recognise, ...] = (
    archive_org.recognise,
    dataverse.recognise,
    figshare.recognise,
    dryad.recognise,
    osf.recognise,
    invenio.recognise,
)


def recognise(landing: Landing) -> Dataset | None:
    """The dataset that a URL stands for. Raises PlatformScope for a page of a known platform that is none."""
    return next((found for platform in PLATFORMS if (found := platform(landing)) is not None), None)


__all__ = ["PLATFORMS", "ApiRequest", "Dataset", "Landing", "ListingPage", "recognise"]
