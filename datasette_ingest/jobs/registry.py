"""The registered enrichments, by slug, from the plugin hook."""

from __future__ import annotations

import inspect
import threading
import weakref
from typing import Any

from datasette.utils import await_me_maybe

from .. import hookspecs
from .enrichment import Enrichment
from .errors import JobError

_FOUND: weakref.WeakKeyDictionary[Any, dict[str, Enrichment]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


class UnknownEnrichment(JobError):
    """No installed plugin registers an enrichment of that slug."""


class SlugTaken(JobError):
    """Two plugins register an enrichment of one slug."""


async def enrichments(datasette: Any) -> dict[str, Enrichment]:
    """Every registered enrichment by slug, asked of the plugins once an instance.

    Pages and jobs have event loops of their own: when both ask at once, the first answer stands for both, so that there
    is one object of each enrichment.

    :raises SlugTaken: when two plugins claim one slug
    :raises ValueError: when an enrichment has no slug or no name
    """
    if datasette not in _FOUND:
        found = await _ask(datasette)
        with _LOCK:
            _FOUND.setdefault(datasette, found)
    return _FOUND[datasette]


def _hook() -> Any:
    """Our hook. Datasette's plugin manager is imported when it is used, never at the top of a module: importing it loads
    every plugin, and one that is half imported by then would be registered without its hooks."""
    from datasette.plugins import pm

    hook = getattr(pm.hook, "register_ingest_enrichments", None)
    if hook is None or not hook.has_spec():
        pm.add_hookspecs(hookspecs)
    return pm.hook.register_ingest_enrichments


async def _ask(datasette: Any) -> dict[str, Enrichment]:
    found: dict[str, Enrichment] = {}
    for answer in _hook()(datasette=datasette):
        given = await await_me_maybe(answer)
        given = await given if inspect.isawaitable(given) else given
        for enrichment in given or []:
            if not enrichment.slug or not enrichment.name:
                raise ValueError(f"{type(enrichment).__name__} needs a slug and a name")
            if enrichment.slug in found:
                raise SlugTaken(
                    f"Two plugins register an enrichment {enrichment.slug!r}: {type(found[enrichment.slug]).__module__}"
                    f" and {type(enrichment).__module__}. Uninstall one of them"
                )
            found[enrichment.slug] = enrichment
    return found


async def enrichment(datasette: Any, slug: str) -> Enrichment:
    """The enrichment of that slug.

    :raises UnknownEnrichment: names those that there are
    """
    known = await enrichments(datasette)
    if slug not in known:
        raise UnknownEnrichment(f"No enrichment {slug!r} is installed. Installed: {', '.join(sorted(known)) or 'none'}")
    return known[slug]
