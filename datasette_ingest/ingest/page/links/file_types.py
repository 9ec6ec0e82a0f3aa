"""What shows that a link leads to a file of a type: MIME types, names, and forms of URLs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

_EDGES = " \t\r\n\f\v\u00a0\u200b\ufeff"


@dataclass(frozen=True)
class FileType:
    """The profile of one type of file."""

    mimetypes: frozenset[str]
    words: frozenset[str]
    """Names of the type, on labels and in class names."""
    path_end: re.Pattern[str]
    """How the path of such a file ends."""
    path_part: re.Pattern[str]
    """What the URL of such a file has in it on many sites."""
    other_ends: re.Pattern[str]
    """How the paths of the other types end."""

    def is_shown_by(self, url: str, mimetype: str) -> bool:
        """Whether a link's MIME type says that it is of this type, or if there is none, its URL."""
        if mimetype:
            return mimetype in self.mimetypes or mimetype.lstrip(".") in self.words
        path, _, query = url.partition("#")[0].partition("?")
        return bool(
            self.path_end.search(path.strip(_EDGES))
            or self.path_part.search(url[:4000])
            or any(self.path_end.search(value) for _, value in parse_qsl(query[:4000]))
        )


FILE_TYPES: dict[str, FileType] = {
    "pdf": FileType(
        mimetypes=frozenset({"application/pdf", "application/x-pdf"}),
        words=frozenset({"pdf", "pdfs", "epdf", "galleypdf", "pdfdirect"}),
        path_end=re.compile(r"\.pdf$", re.IGNORECASE),
        path_part=re.compile(
            r"/(?:e?pdf|pdfdirect|pdfft|pdfplus|full-?pdf|download-?pdf|pdf-?download)(?=[/?;]|$)"
            r"|(?:type|format|blobtype|filetype)=(?:pdf|printable)|[?&]pdf=(?:render|1)"
            r"|\.pdf(?=[?;&/]|$)|/(?:get|view|show|stamp|print|open)_?-?pdf(?=[/?.;]|$)",
            re.IGNORECASE,
        ),
        other_ends=re.compile(r"\.n?xml$", re.IGNORECASE),
    ),
    "xml": FileType(
        mimetypes=frozenset({"application/xml", "text/xml", "application/jats+xml", "application/tei+xml"}),
        words=frozenset({"xml", "jats", "nxml", "tei"}),
        path_end=re.compile(r"\.n?xml$", re.IGNORECASE),
        path_part=re.compile(
            r"/(?:xml|jats|nlm|fulltextxml)(?=[/?;]|$)|(?:type|format)=(?:xml|manuscript|jats)", re.IGNORECASE
        ),
        other_ends=re.compile(r"\.(?:pdf|x?html?)$", re.IGNORECASE),
    ),
    "html": FileType(
        mimetypes=frozenset({"text/html", "application/xhtml+xml"}),
        words=frozenset({"html", "htm"}),
        path_end=re.compile(r"\.x?html?$", re.IGNORECASE),
        path_part=re.compile(
            r"/(?:full|fulltext|full-text|html)(?=[/?;]|$)|(?:format|type)=html|sci_arttext", re.IGNORECASE
        ),
        other_ends=re.compile(r"\.(?:pdf|n?xml)$", re.IGNORECASE),
    ),
}
"""Profiles by the name of the ingest type."""

OTHER_TYPE_WORDS = {
    name: frozenset(word for other, kind in FILE_TYPES.items() if other != name for word in kind.words)
    for name in FILE_TYPES
}

OTHER_FILES = re.compile(
    r"\.(?:csv|tsv|xlsx?|ods|docx?|odt|rtf|txt|md|tex|zip|gz|tgz|rar|7z|tar|png|jpe?g|gif|tiff?|svg|webp|mp[34]|avi|mov|wav"
    r"|ris|bib|enw|nbib|epub|mobi|pptx?|odp|json|r|py|ipynb|sav|dta|rds|nc|fasta|css|js)$",
    re.IGNORECASE,
)
"""How the paths of files end that are no full text."""
