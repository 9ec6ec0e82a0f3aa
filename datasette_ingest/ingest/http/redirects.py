"""Redirects: which answers are one, and where they lead."""

from __future__ import annotations

from ..errors import BadRedirect, BadScheme, InvalidUrl
from ..urls import join, mask, without_fragment
from .parser import Head


def is_redirect(head: Head) -> bool:
    """Any 3xx: one without a usable Location is a broken redirect, not an answer."""
    return 300 <= head.status < 400


def redirect_target(href: str, head: Head) -> str:
    """Where a redirect from `href` leads, without a fragment. Raises BadRedirect or BadScheme.

    Of several Locations the first counts, as long as it is not empty.
    """
    location = next((value for value in head.get_all(b"location") if value), None)
    if location is None:
        raise BadRedirect(f"a redirect ({head.status}) without a Location at {mask(href)}", status_code=head.status)
    try:
        return without_fragment(join(href, location))
    except InvalidUrl as error:
        raise BadRedirect(
            f"a redirect ({head.status}) to something that is no URL at {mask(href)}: {location[:200]!r}",
            status_code=head.status,
        ) from error
    except BadScheme as error:
        error.locate(mask(href))
        raise
