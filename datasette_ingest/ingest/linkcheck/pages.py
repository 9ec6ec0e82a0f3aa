"""What a page says for the verdict on a link to it: its fragment's place, a page that is none, a parked domain. Pure.

The fragment is found as browsers find it (https://html.spec.whatwg.org/multipage/browsing-the-web.html#find-a-potential-indicated-element).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from ..errors import IngestError, Soft404
from ..page.html import base_of, parse_html
from ..page.interstitials import SHORT_WORDS, interstitial, is_parked
from ..page.links.find import refresh_target
from ..page.text import PageText, read_text
from ..urls import mask, resolve, without_fragment

DIRECTIVE = ":~:"
"""Begins what is for the browser only, such as a text to scroll to (https://wicg.github.io/scroll-to-text-fragment/)."""
ROUTES = ("/", "!")
"""How fragments begin that a page's scripts read."""
PREFIXES = ("user-content-",)
"""What sites put before the ids of their users' texts; their scripts look for both."""


@dataclass(frozen=True)
class Seen:
    """What was read of a page. `text` is None for a page without any element."""

    text: PageText | None
    has_anchor: bool | None
    """Whether the fragment's place is there; None where none was looked for."""
    leads_to: str | None = None
    """Where a page of few words sends its visitors by itself."""


def anchor_of(fragment: str) -> str | None:
    """The anchor that a fragment asks a page for; None where only a browser can tell, '' where the top is meant."""
    name, directive, _ = fragment.partition(DIRECTIVE)
    if not name:
        return None if directive else ""
    if name.startswith(ROUTES):
        return None
    return "" if unquote(name).lower() == "top" else name


def read(data: bytes, url: str, content_type: str, anchor: str) -> Seen:
    """Read a page. Can be called in a process of its own."""
    root = parse_html(data, content_type)
    if root is None:
        return Seen(None, False if anchor else None)
    has_anchor = _has_anchor(root, anchor) if anchor else None
    target = _refresh(root, url)
    text = read_text(root, has_citation=False)
    leads_on = target is not None and text.words <= SHORT_WORDS and without_fragment(target) != without_fragment(url)
    return Seen(text, has_anchor, target if leads_on else None)


def obstacle(url: str, text: PageText) -> IngestError | None:
    """Why the page is not what the link was made for; None if it may be."""
    if is_parked(text):
        return Soft404(
            f"{mask(url)} is the page of a domain that is for sale, expired or not set up: {(text.title or text.start)[:100]!r}"
        )
    return interstitial(url, text)


def _refresh(root: Any, url: str) -> str | None:
    """Where the page's first refresh leads; None without one."""
    for meta in root.iter("meta"):
        if (meta.get("http-equiv") or "").strip().lower() == "refresh":
            target = refresh_target(meta.get("content") or "")
            return None if target is None else resolve(target, base_of(root, url))
    return None


def _has_anchor(root: Any, anchor: str) -> bool:
    wanted = {anchor, unquote(anchor)}
    wanted |= {prefix + name for prefix in PREFIXES for name in wanted}
    return not wanted.isdisjoint(_anchors(root))


def _anchors(root: Any) -> Iterator[str]:
    for element in root.iter():
        if not isinstance(element.tag, str):
            continue
        for name in ("id", "name") if element.tag == "a" else ("id",):
            value = element.get(name)
            if value:
                yield value
