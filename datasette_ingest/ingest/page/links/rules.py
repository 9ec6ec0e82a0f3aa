"""The built-in link rules and URL rewrites: the entries of rules.toml, and those that follow from the file types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from ...linkrule import LinkRule, Place, UrlRewrite
from ..phrases import read_toml, words
from .file_types import FILE_TYPES

_FILE = Path(__file__).with_name("rules.toml")
_JSON_LD_EXAMPLE = (
    '<script type="application/ld+json">{"@type": "ScholarlyArticle", "PROPERTY": '
    '[{"@type": "MediaObject", "encodingFormat": "TYPE", "contentUrl": "/found"}]}</script>'
)


@cache
def built_in_rules() -> tuple[LinkRule, ...]:
    """All built-in rules, the most trusted first."""
    rules = [*_typed_links(), *_json_ld(), *(_rule(**entry) for entry in read_toml(_FILE)["rule"])]
    return tuple(sorted(rules, key=lambda rule: -rule.trust))


@cache
def rewrites() -> tuple[UrlRewrite, ...]:
    """URLs that show a file inside a page, and the file's own. The new URL is tried before the one it was made from."""
    return tuple(UrlRewrite(**entry) for entry in read_toml(_FILE)["rewrite"])


def _rule(*, place: str, name: str, key: str = "", example: str = "", trust: int, **more: str | bool) -> LinkRule:
    if place == Place.META.value:
        key, example = name, f'<meta name="{name}" content="/found">'
    elif place == Place.URL.value:
        example = "<p>A page"
    return LinkRule(name=name, place=Place(place), key=key, example=example, trust=trust, **more)  # type: ignore[arg-type]


def _typed_links() -> list[LinkRule]:
    """link elements and Link headers, by relation and type: signposting's item before alternate."""
    return [
        LinkRule(
            f"link-{rel} ({mimetype})",
            target,
            Place.LINK,
            mimetype,
            rel=rel,
            trust=trust,
            is_shared=True,
            example=f'<link rel="{rel}" type="{mimetype}" href="/found">',
        )
        for target, file_type in FILE_TYPES.items()
        for mimetype in sorted(file_type.mimetypes)
        for rel, trust in (("item", 94), ("alternate", 91 if target != "html" else 60))
    ]


def _json_ld() -> list[LinkRule]:
    return [
        LinkRule(
            f"json-ld-{name} ({target})",
            target,
            Place.JSON_LD,
            name,
            trust=90,
            is_shared=True,
            example=_JSON_LD_EXAMPLE.replace("PROPERTY", name).replace("TYPE", min(file_type.mimetypes)),
        )
        for name in ("encoding", "associatedMedia")
        for target, file_type in FILE_TYPES.items()
    ]


@dataclass(frozen=True)
class RuleSet:
    """The rules to read pages by, and whether an anchor is worth a look."""

    rules: tuple[LinkRule, ...]
    is_relevant: Callable[[str], bool]
    """Whether a lower-case text has a part of a word for a file or for getting it, or a word of a rule's key."""


@lru_cache(maxsize=64)
def rule_set(own: tuple[LinkRule, ...] = ()) -> RuleSet:
    """The built-in rules with a user's own before those of the same trust."""
    rules = (*own, *built_in_rules())
    keys = (rule.key for rule in rules if rule.place is Place.ANCHOR)
    parts = words("links.prefilter") | {word for key in keys for word in key.strip("'\"").lower().split()}
    return RuleSet(rules, _prefilter(parts))


def _prefilter(parts: frozenset[str]) -> Callable[[str], bool]:
    """Whether a text has one of these parts. Searches for each are many times quicker than one regular expression."""
    kept: list[str] = []
    for part in sorted(parts, key=len):
        # A text with the longer part has the shorter one.
        if part and not any(short in part for short in kept):
            kept.append(part)
    ascii_parts = tuple(part for part in kept if part.isascii())
    others = tuple(part for part in kept if not part.isascii())

    def is_relevant(text: str) -> bool:
        for part in ascii_parts:
            if part in text:
                return True
        return not text.isascii() and any(part in text for part in others)

    return is_relevant
