"""Redirects: which responses are redirects, and where they lead."""

from __future__ import annotations

from ...masking import mask_url
from ..errors import BadRedirect, BadScheme, InvalidUrl
from ..urls import join, mask, without_fragment
from .parser import Head


def is_redirect(head: Head) -> bool:
    """Whether the status is 3xx. One without a usable Location is a broken redirect, not a page."""
    return 300 <= head.status < 400


def redirect_target(href: str, head: Head) -> str:
    """The URL that a redirect from `href` leads to, without its fragment. Raises BadRedirect or BadScheme.

    Of several Location headers the first that is not empty counts.
    """
    location = next((value for value in head.get_all(b"location") if value), None)
    if location is None:
        raise BadRedirect(f"a redirect ({head.status}) without a Location at {mask(href)}", status_code=head.status)
    try:
        return without_fragment(join(href, location))
    except InvalidUrl as error:
        raise BadRedirect(
            f"a redirect ({head.status}) to something that is not a URL at {mask(href)}: {mask_url(location.decode('latin-1'))[:200]!r}",
            status_code=head.status,
        ) from error
    except BadScheme as error:
        error.locate(mask(href))
        raise


def redirect_fragment(head: Head) -> str:
    """The fragment of a redirect's Location; '' without one. Browsers then keep that of the URL before."""
    location = next((value for value in head.get_all(b"location") if value), b"")
    return location.partition(b"#")[2].decode("utf-8", "replace")
