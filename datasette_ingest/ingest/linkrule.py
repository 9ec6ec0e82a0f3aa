"""LinkRule: one way in which pages name a file. The built-in rules are in page/links/rules.toml; users add their own in
the setting `rules`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from .urls import whole_characters

DEFAULT_TRUST = 90
MAX_TRUST = 100
MAX_NAME = 200
"""Longest name of a rule, in characters; it is stored with each link that the rule finds."""


class Place(Enum):
    """Where on a page a rule looks."""

    META = "meta"
    """A meta element named `key` (name=, property= or itemprop=); its content is the link."""
    LINK = "link"
    """A link element or a Link header with relation `rel` and type `key`."""
    JSON_LD = "json-ld"
    """The media objects under property `key` of a work that a JSON-LD script describes, of the target's type."""
    SCRIPT = "script"
    """The text of a script: `key` is a regular expression whose first group is the link, as JSON writes it."""
    ANCHOR = "anchor"
    """An anchor or button with all words of `key` among the words of its class, id and data attributes, or with the
    label `key` if `key` is written in quotes."""
    FRAME = "frame"
    """An embed, object, iframe or frame of the target's type or path ending; with `key`, one with that word in its
    class, id or name."""
    INPUT = "input"
    """A hidden form field named `key`; its value is the link."""
    REFRESH = "refresh"
    """A meta refresh."""
    URL = "url"
    """The page's own URL: `key` is a regular expression that it matches, `to` what the link then is."""


@dataclass(frozen=True)
class LinkRule:
    """One way in which pages name a file."""

    name: str
    target: str
    """The type of file that it leads to; empty for all types."""
    place: Place
    key: str = ""
    """What to look for; its meaning is the place's."""
    rel: str = ""
    page: str = ""
    """A regular expression that the page's URL must hold for the rule to count; empty for any page."""
    found: str = ""
    """A regular expression that the link must hold, resolved; empty for any link."""
    to: str = ""
    """What the link becomes: a template over the groups of `found`, such as `\\1/pdf`; without `found`, over those of
    the `key` of a script or URL."""
    trust: int = DEFAULT_TRUST
    """How sure it is that this is the work's own file: 0 to 100. Links are tried in this order."""
    is_shared: bool = False
    """Whether other works' links carry the mark as well, so that what speaks against a link counts. A user's rule
    means what it says."""
    example: str = ""
    """A piece of HTML in which the rule finds `example_found`."""
    example_page: str = "http://example.org/a/b"
    example_found: str = "http://example.org/found"

    def counts_on(self, url: str) -> bool:
        """Whether the rule is for this page at all."""
        return not self.page or pattern(self.page).search(url) is not None

    def finish(self, url: str) -> str | None:
        """The link that a found URL becomes, or None if it is not the rule's kind."""
        if not self.found:
            return url
        match = pattern(self.found).search(url)
        if match is None:
            return None
        return match.expand(self.to) if self.to else url


@dataclass(frozen=True)
class UrlRewrite:
    """A form of URL that shows a file inside a page, and the URL of the file itself."""

    name: str
    found: str
    """A regular expression that the whole URL matches."""
    to: str
    """A template over its groups."""
    example: str
    example_found: str


@lru_cache(maxsize=1024)
def pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_KEYS = {field.name for field in dataclasses.fields(LinkRule)} - {
    "is_shared",
    "example",
    "example_page",
    "example_found",
}
_PLACES = {place.value: place for place in Place}
_NEED_KEY = frozenset({Place.META, Place.JSON_LD, Place.SCRIPT, Place.ANCHOR, Place.INPUT, Place.URL})


def link_rule(given: Mapping[str, Any], *, targets: frozenset[str]) -> LinkRule:
    """A rule as configuration writes it: `{name, target, place, key, rel, page, found, to, trust}`.

    `targets` are the types of file that there are. Raises ValueError that names the rule and what is wrong with it.
    """
    name = given.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ValueError("rules: each rule needs a name")
    try:
        _check_values(given, targets)
        rule = LinkRule(**{"target": "", **given, "place": _PLACES[given["place"]]})
        _check_rule(rule)
    except ValueError as problem:
        raise ValueError(f"rules: {name[:MAX_NAME]!r}: {problem}") from None
    return rule


def _check_values(given: Mapping[str, Any], targets: frozenset[str]) -> None:
    """Check the type of each value."""
    if len(given["name"]) > MAX_NAME:
        raise ValueError(f"a name has no more than {MAX_NAME} characters")
    if unknown := sorted(set(given) - _KEYS, key=str):
        raise ValueError(f"unknown key {unknown[0]!r}; keys are {', '.join(sorted(_KEYS))}")
    for key in sorted(set(given) - {"trust"}):
        if not isinstance(given[key], str) or given[key] != whole_characters(given[key]):
            raise ValueError(f"{key} must be text")
    if given.get("place") not in _PLACES:
        raise ValueError(f"place must be one of {', '.join(_PLACES)}")
    if given.get("target", "") not in {"", *targets}:
        raise ValueError(f"target must be one of {', '.join(sorted(targets))}, or left out for all")
    trust = given.get("trust", DEFAULT_TRUST)
    if isinstance(trust, bool) or not isinstance(trust, int) or not 0 <= trust <= MAX_TRUST:
        raise ValueError(f"trust must be a whole number from 0 to {MAX_TRUST}")


def _check_rule(rule: LinkRule) -> None:
    """Check that the rule has what its place needs, and that its patterns and its template can be used."""
    place, has_pattern = rule.place, rule.place in (Place.SCRIPT, Place.URL)
    if place in _NEED_KEY and not rule.key.strip(" \t\r\n'\"" if place is Place.ANCHOR else None):
        raise ValueError(f"a rule for {place.value} needs a key")
    if place is Place.LINK and not (rule.key or rule.rel):
        raise ValueError("a rule for link needs a rel, or a type as its key")
    if place is Place.URL and not rule.to:
        raise ValueError("a rule for url needs `to`, the link that it leads to")
    for name in ("page", "found", *(["key"] if has_pattern else [])):
        _check_pattern(name, getattr(rule, name))
    if place is Place.SCRIPT and pattern(rule.key).groups < 1:
        raise ValueError("the key of a rule for script needs a group ( ) round the link")
    if rule.to:
        source = rule.found or (rule.key if has_pattern else "")
        if not source:
            raise ValueError("`to` needs `found`, whose groups it is made of")
        _check_template(rule.to, source)


def _check_pattern(name: str, text: str) -> None:
    try:
        pattern(text)
    except (re.error, OverflowError, RecursionError) as problem:
        raise ValueError(f"{name} is not a regular expression: {problem}") from None


def _check_template(template: str, source: str) -> None:
    groups = pattern(source).groups
    for name, number in re.findall(r"\\g<(\w+)>|\\(\d+)", template):
        reference = name or number
        if not reference.isdigit() or int(reference) > groups:
            raise ValueError(f"`to` names the group {reference}, and the expression has {groups}")
        if number.startswith("0"):
            raise ValueError(f"the whole of what `to` is made of is \\g<0>, not \\{reference}")
    if re.search(r"\\(?!\d|g<\w+>|\\)", template.replace(r"\\", "")):
        raise ValueError("a backslash in `to` begins a group's number, such as \\1")
    try:
        pattern(source).sub(template, "")
    except (re.error, IndexError) as problem:
        raise ValueError(f"`to` cannot be used: {problem}") from None
