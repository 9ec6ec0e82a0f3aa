"""Full text as an HTML page: a page that is itself the article."""

from __future__ import annotations

from ..errors import WrongMimetype
from ..files import HTML_TYPES
from ..page.scope import judge
from .base import IngestType

TYPE = IngestType(
    name="html",
    mimetypes=HTML_TYPES,
    no_link=lambda where: WrongMimetype(f"a page that is not the article and has no link to it, at {where}"),
    judge=judge,
)
