"""Data platforms with a public API, told by their URLs and pages. One module each; the first that knows a URL has it."""

from __future__ import annotations

from . import archive_org, dataverse, dryad, figshare, invenio, osf
from .base import Dataset, Landing, Listing, Question, Recognise

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


__all__ = ["PLATFORMS", "Dataset", "Landing", "Listing", "Question", "recognise"]
