"""How pages name their full text: one row a rule, best first, each with an example that a test runs.

Sources: the tags that Google Scholar documents for publishers (citation_*), the manuals of bepress, EPrints and
Ovid for theirs, the HTML Standard for link types. Words of labels: what repositories put on their buttons.
"""

from __future__ import annotations

from .rules import LinkRule, Place

HARMLESS_WORDS = frozenset(
    """a access accepted article as artigo artículo articulo artikel author authors baixar beitrag click complet
    completo da das de der descargar des die document documento download el en english espanol español file fichier
    for format free from full fulltext get herunterladen here html in integral intégral journal jats la le link
    manuscript nlm now of on only open original paper pdf português postprint preprint print publisher published read
    save scarica see show télécharger telecharger tekst testo text texte texto the this to version versión view voir
    volltext web with xml complete publication published""".split()  # noqa: SIM905
)
"""Words that may stand beside the wanted one on a link to the work itself. Supplements, figures and reviews bring
others along."""

_PDF_TYPE = "application/pdf"

RULES: tuple[LinkRule, ...] = (
    LinkRule(
        "citation_pdf_url",
        "pdf",
        Place.META,
        "citation_pdf_url",
        example='<meta name="citation_pdf_url" content="/found">',
    ),
    LinkRule(
        "bepress_citation_pdf_url",
        "pdf",
        Place.META,
        "bepress_citation_pdf_url",
        example='<meta name="bepress_citation_pdf_url" content="http://example.org/found">',
    ),
    LinkRule(
        "eprints.document_url",
        "pdf",
        Place.META,
        "eprints.document_url",
        example='<meta name="eprints.document_url" content="/found">',
    ),
    LinkRule(
        "wkhealth_pdf_url",
        "pdf",
        Place.META,
        "wkhealth_pdf_url",
        example='<meta name="wkhealth_pdf_url" content="/found">',
    ),
    LinkRule(
        "link-alternate-pdf",
        "pdf",
        Place.LINK,
        _PDF_TYPE,
        rel="alternate",
        example='<link rel="alternate" type="application/pdf" href="/found">',
    ),
    LinkRule(
        "link-item-pdf",
        "pdf",
        Place.LINK,
        _PDF_TYPE,
        rel="item",
        example='<link rel="item" type="application/pdf" href="/found">',
    ),
    LinkRule(
        "citation_xml_url",
        "xml",
        Place.META,
        "citation_xml_url",
        example='<meta name="citation_xml_url" content="/found">',
    ),
    LinkRule(
        "fulltext_xml",
        "xml",
        Place.META,
        "fulltext_xml",
        example='<meta name="fulltext_xml" content="/found">',
    ),
    *(
        LinkRule(
            f"link-alternate-xml ({mimetype})",
            "xml",
            Place.LINK,
            mimetype,
            rel="alternate",
            example=f'<link rel="alternate" type="{mimetype}" href="/found">',
        )
        for mimetype in ("application/jats+xml", "application/tei+xml", "application/xml", "text/xml")
    ),
    LinkRule(
        "citation_fulltext_html_url",
        "html",
        Place.META,
        "citation_fulltext_html_url",
        example='<meta name="citation_fulltext_html_url" content="/found">',
    ),
    LinkRule(
        "citation_full_html_url",
        "html",
        Place.META,
        "citation_full_html_url",
        example='<meta name="citation_full_html_url" content="/found">',
    ),
    LinkRule(
        "link-alternate-html",
        "html",
        Place.LINK,
        "text/html",
        rel="alternate",
        example='<link rel="alternate" type="text/html" href="/found">',
    ),
    LinkRule(
        "meta-refresh",
        "",
        Place.REFRESH,
        example='<meta http-equiv="Refresh" content="0; URL=\'/found\'">',
    ),
    LinkRule(
        "anchor-pdf",
        "pdf",
        Place.ANCHOR,
        words=frozenset({"pdf"}),
        example='<a href="/found">Download full text (PDF, 1.2 MB)</a>',
    ),
    LinkRule(
        "anchor-marked-pdf",
        "pdf",
        Place.MARKED,
        "pdf",
        example='<a class="btn pdf-link" href="/found">Full text</a>',
    ),
    LinkRule(
        "frame-pdf",
        "pdf",
        Place.FRAME,
        _PDF_TYPE,
        rel=".pdf",
        example='<embed type="application/pdf" src="/found">',
    ),
    LinkRule(
        "anchor-xml",
        "xml",
        Place.ANCHOR,
        words=frozenset({"xml"}),
        example='<a href="/found" title="Download article XML">XML</a>',
    ),
    *(
        LinkRule(
            f"anchor-html ({' '.join(sorted(words))})",
            "html",
            Place.ANCHOR,
            words=words,
            example=f'<a href="/found">{" ".join(sorted(words))}</a>',
        )
        for words in (
            frozenset({"full", "text", "html"}),
            frozenset({"fulltext", "html"}),
            frozenset({"html"}),
            frozenset({"full", "text"}),
            frozenset({"fulltext"}),
            frozenset({"volltext"}),
            frozenset({"texto", "completo"}),
        )
    ),
)

KEYWORDS = frozenset(word for rule in RULES for word in rule.words) | frozenset(
    rule.key for rule in RULES if rule.place is Place.MARKED
)
"""The words that rules for anchors ask for."""
