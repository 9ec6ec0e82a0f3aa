"""How pages name their full text: one row a rule, each with an example that a test runs.

A platform gets a row here only where what its links say (words.py, score.py) is not enough: a file named in a script,
an address that follows from the page's own, a class name without words. Sources: the tags that Google Scholar
documents for publishers (citation_*), the manuals of bepress, EPrints and Ovid for theirs, signposting.org and
schema.org, the HTML Standard for link types, and the public templates and pages of the platforms named.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...linkrule import LinkRule, Place, Repair
from .words import WANTED, Matters, matters


def _meta(name: str, target: str, trust: int) -> LinkRule:
    return LinkRule(name, target, Place.META, name, trust=trust, example=f'<meta name="{name}" content="/found">')


def _typed_links() -> tuple[LinkRule, ...]:
    """link elements and Link headers, by relation and type: signposting's item before alternate."""
    return tuple(
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
        for target, wanted in WANTED.items()
        for mimetype in sorted(wanted.mimetypes)
        for rel, trust in (("item", 94), ("alternate", 91 if target != "html" else 60))
    )


def _json_ld(prop: str, trust: int) -> tuple[LinkRule, ...]:
    return tuple(
        LinkRule(
            f"json-ld-{prop} ({target})",
            target,
            Place.JSON_LD,
            prop,
            trust=trust,
            is_shared=True,
            example=_JSON_LD_EXAMPLE.replace("PROPERTY", prop).replace("TYPE", min(wanted.mimetypes)),
        )
        for target, wanted in WANTED.items()
    )


_JSON_LD_EXAMPLE = (
    '<script type="application/ld+json">{"@type": "ScholarlyArticle", "PROPERTY": '
    '[{"@type": "MediaObject", "encodingFormat": "TYPE", "contentUrl": "/found"}]}</script>'
)


_HEAD = (
    _meta("citation_pdf_url", "pdf", 100),
    _meta("bepress_citation_pdf_url", "pdf", 98),
    _meta("eprints.document_url", "pdf", 97),
    _meta("wkhealth_pdf_url", "pdf", 96),
    _meta("prism.url.pdf", "pdf", 95),
    _meta("citation_xml_url", "xml", 100),
    _meta("fulltext_xml", "xml", 98),
    _meta("citation_fulltext_html_url", "html", 100),
    _meta("citation_full_html_url", "html", 99),
    _meta("wkhealth_fulltext_html_url", "html", 96),
    *_typed_links(),
    *_json_ld("encoding", 90),
    *_json_ld("associatedMedia", 90),
    LinkRule(
        "meta-refresh",
        "",
        Place.REFRESH,
        trust=75,
        example='<meta http-equiv="Refresh" content="0; URL=\'/found\'">',
    ),
    LinkRule(
        "noscript-refresh",
        "",
        Place.REFRESH,
        "noscript",
        found=r"^(?!.*(?:no-?script|no-?js|javascript|unsupported|cookie|enable)).*$",
        trust=5,
        example='<noscript><meta http-equiv="refresh" content="0; url=/found"></noscript>',
    ),
)

_FRAMES = (
    LinkRule(
        "frame-pdf", "pdf", Place.FRAME, trust=80, is_shared=True, example='<embed type="application/pdf" src="/found">'
    ),
    LinkRule(
        "frame-html (OJS)", "html", Place.FRAME, "htmlframe", trust=85, example='<iframe name="htmlFrame" src="/found">'
    ),
    LinkRule("frameset", "", Place.FRAME, "frame", trust=30, example='<frameset><frame src="/found"></frameset>'),
)


def _address(name: str, target: str, key: str, to: str, page: str, found: str, trust: int = 92) -> LinkRule:
    """The file's address follows from the page's own."""
    return LinkRule(
        name, target, Place.URL, key, to=to, trust=trust, example_page=page, example_found=found, example="<p>A page"
    )


_ADDRESSES = (
    _address(
        "arxiv",
        "pdf",
        r"^https?://(?:www\.)?(arxiv\.org)/abs/([^?#]+)",
        r"https://\1/pdf/\2",
        "https://arxiv.org/abs/2101.00001v2",
        "https://arxiv.org/pdf/2101.00001v2",
    ),
    _address(
        "arxiv-html",
        "html",
        r"^https?://(?:www\.)?(arxiv\.org)/abs/([^?#]+)",
        r"https://\1/html/\2",
        "https://arxiv.org/abs/2401.00001v2",
        "https://arxiv.org/html/2401.00001v2",
    ),
    _address(
        "europepmc",
        "pdf",
        r"^https?://(?:www\.)?europepmc\.org/(?:articles?|article/PMC)/(PMC\d+)",
        r"https://europepmc.org/articles/\1?pdf=render",
        "https://europepmc.org/article/PMC/PMC1234567",
        "https://europepmc.org/articles/PMC1234567?pdf=render",
    ),
    _address(
        "europepmc-xml",
        "xml",
        r"^https?://(?:www\.)?europepmc\.org/(?:articles?|article/PMC)/(PMC\d+)",
        r"https://www.ebi.ac.uk/europepmc/webservices/rest/\1/fullTextXML",
        "https://europepmc.org/articles/PMC1234567",
        "https://www.ebi.ac.uk/europepmc/webservices/rest/PMC1234567/fullTextXML",
    ),
    _address(
        "pmc",
        "pdf",
        r"^(https?://(?:pmc\.ncbi\.nlm\.nih\.gov|www\.ncbi\.nlm\.nih\.gov/pmc)/articles/PMC\d+)",
        r"\1/pdf/",
        "https://pmc.ncbi.nlm.nih.gov/articles/PMC1234567/",
        "https://pmc.ncbi.nlm.nih.gov/articles/PMC1234567/pdf/",
        trust=60,
    ),
    _address(
        "scielo-pdf",
        "pdf",
        r"^(https?://[^/]+/j/[^/]+/a/[A-Za-z0-9]{20,})/?(?:\?(?:[^#]*&)?lang=(\w+))?",
        r"\1/?format=pdf&lang=\2",
        "https://www.scielo.br/j/xy/a/abcdefghijABCDEFGHIJ123/?lang=pt",
        "https://www.scielo.br/j/xy/a/abcdefghijABCDEFGHIJ123/?format=pdf&lang=pt",
        trust=60,
    ),
    _address(
        "scielo-xml",
        "xml",
        r"^(https?://[^/]+/j/[^/]+/a/[A-Za-z0-9]{20,})/?(?:\?(?:[^#]*&)?lang=(\w+))?",
        r"\1/?format=xml&lang=\2",
        "https://www.scielo.br/j/xy/a/abcdefghijABCDEFGHIJ123/?lang=pt",
        "https://www.scielo.br/j/xy/a/abcdefghijABCDEFGHIJ123/?format=xml&lang=pt",
        trust=60,
    ),
    _address(
        "scielo-classic-html",
        "html",
        r"^(https?://[^/]+/scielo\.php\?(?:[^#]*&)?script=)sci_abstract(.*)$",
        r"\1sci_arttext\2",
        "http://www.scielo.org/scielo.php?script=sci_abstract&pid=S0000-1&lng=en",
        "http://www.scielo.org/scielo.php?script=sci_arttext&pid=S0000-1&lng=en",
    ),
    _address(
        "plos",
        "pdf",
        r"^(https?://journals\.plos\.org/\w+/article)\?(?:[^#]*&)?(id=[^&#]+)",
        r"\1/file?\2&type=printable",
        "https://journals.plos.org/plosone/article?id=10.1371/journal.pone.1",
        "https://journals.plos.org/plosone/article/file?id=10.1371/journal.pone.1&type=printable",
    ),
    _address(
        "plos-xml",
        "xml",
        r"^(https?://journals\.plos\.org/\w+/article)\?(?:[^#]*&)?(id=[^&#]+)",
        r"\1/file?\2&type=manuscript",
        "https://journals.plos.org/plosone/article?id=10.1371/journal.pone.1",
        "https://journals.plos.org/plosone/article/file?id=10.1371/journal.pone.1&type=manuscript",
    ),
    _address(
        "biorxiv",
        "pdf",
        r"^(https?://(?:www\.)?(?:bio|med)rxiv\.org/content/10\.\d+/[\d.]+v\d+)",
        r"\1.full.pdf",
        "https://www.biorxiv.org/content/10.1101/2020.01.01.123456v2.abstract",
        "https://www.biorxiv.org/content/10.1101/2020.01.01.123456v2.full.pdf",
        trust=88,
    ),
    _address(
        "jstage",
        "pdf",
        r"^(https?://(?:www\.)?jstage\.jst\.go\.jp/article/.+?)/_article(/-char/\w+)?",
        r"\1/_pdf\2",
        "https://www.jstage.jst.go.jp/article/xyz/1/2/1_3/_article/-char/en",
        "https://www.jstage.jst.go.jp/article/xyz/1/2/1_3/_pdf/-char/en",
    ),
    _address(
        "osf",
        "pdf",
        r"^https?://osf\.io/(?:preprints/(?:[a-z]\w*/)?)?([a-z0-9]{5}(?:_v\d+)?)/?(?:[?#]|$)",
        r"https://osf.io/download/\1/",
        "https://osf.io/preprints/socarxiv/ab1cd_v1",
        "https://osf.io/download/ab1cd_v1/",
    ),
    _address(
        "researchsquare",
        "pdf",
        r"^(https?://(?:www\.)?researchsquare\.com/article/rs-\d+/v\d+)(?=[/?#]|$)",
        r"\1.pdf",
        "https://www.researchsquare.com/article/rs-123456/v1",
        "https://www.researchsquare.com/article/rs-123456/v1.pdf",
    ),
    *(
        _address(
            f"mdpi-{target}",
            target,
            r"^(https?://(?:www\.)?mdpi\.com/\d{4}-\d{3}[\dX]/\d+/\d+/\d+)(?=[/?#]|$)",
            rf"\1/{end}",
            "https://www.mdpi.com/1234-5678/1/2/3",
            f"https://www.mdpi.com/1234-5678/1/2/3/{end}",
        )
        for target, end in (("pdf", "pdf"), ("xml", "xml"), ("html", "htm"))
    ),
    *(
        _address(
            f"frontiers-{target}",
            target,
            r"^(https?://(?:www\.)?frontiersin\.org/(?:journals/[^/]+/)?articles/10\.3389/[^/?#]+)",
            rf"\1/{end}",
            "https://www.frontiersin.org/articles/10.3389/fxyz.2020.00001/full",
            f"https://www.frontiersin.org/articles/10.3389/fxyz.2020.00001/{end}",
        )
        for target, end in (("pdf", "pdf"), ("xml", "xml"), ("html", "full"))
    ),
    _address(
        "hal",
        "pdf",
        r"^(https?://(?:[\w-]+\.)*(?:hal\.science|archives-ouvertes\.fr)/(?:[\w-]+/)?[a-z]+-\d{8}(?:v\d+)?)(?=[?#]|$)",
        r"\1/document",
        "https://hal.science/hal-01234567v1",
        "https://hal.science/hal-01234567v1/document",
        trust=50,
    ),
    _address(
        "cyberleninka",
        "pdf",
        r"^(https?://cyberleninka\.ru/article/n/[^/?#]+)(?=[?#]|$)",
        r"\1/pdf",
        "https://cyberleninka.ru/article/n/nazvanie",
        "https://cyberleninka.ru/article/n/nazvanie/pdf",
    ),
    _address(
        "persee",
        "pdf",
        r"^(https?://(?:www\.)?persee\.fr)/doc/([^/?#]+)",
        r"\1/docAsPDF/\2.pdf",
        "https://www.persee.fr/doc/xyz_0000-0000_1990_num_1_1_1",
        "https://www.persee.fr/docAsPDF/xyz_0000-0000_1990_num_1_1_1.pdf",
    ),
    _address(
        "openedition",
        "pdf",
        r"^(https?://journals\.openedition\.org/[\w-]+)/(\d+)(?=[?#]|$)",
        r"\1/pdf/\2",
        "https://journals.openedition.org/xyz/1234",
        "https://journals.openedition.org/xyz/pdf/1234",
        trust=55,
    ),
    _address(
        "openedition-xml",
        "xml",
        r"^(https?://journals\.openedition\.org/[\w-]+)/(\d+)(?=[?#]|$)",
        r"\1/tei/\2",
        "https://journals.openedition.org/xyz/1234",
        "https://journals.openedition.org/xyz/tei/1234",
    ),
    _address(
        "elife-xml",
        "xml",
        r"^(https?://elifesciences\.org/articles/\d+)(?=[?#]|$)",
        r"\1.xml",
        "https://elifesciences.org/articles/12345",
        "https://elifesciences.org/articles/12345.xml",
    ),
    _address(
        "core",
        "pdf",
        r"^(https?://core\.ac\.uk)/(?:reader|display)/(\d+)",
        r"\1/download/\2.pdf",
        "https://core.ac.uk/reader/123456",
        "https://core.ac.uk/download/123456.pdf",
    ),
    _address(
        "atypon-html",
        "html",
        r"^(https?://[^/]+/doi)/(?:abs|abstract|pdf|epdf)/(10\.[^?#]+)",
        r"\1/full/\2",
        "https://journals.example.org/doi/abs/10.1177/1.2",
        "https://journals.example.org/doi/full/10.1177/1.2",
        trust=60,
    ),
    _address(
        "hindawi",
        "pdf",
        r"^https?://(?:www\.)?hindawi\.com/journals/([^/]+)/(\d{4})/(\d+)",
        r"https://downloads.hindawi.com/journals/\1/\2/\3.pdf",
        "https://www.hindawi.com/journals/xyz/2020/1234567/",
        "https://downloads.hindawi.com/journals/xyz/2020/1234567.pdf",
        trust=55,
    ),
)

_SCRIPTED = (
    LinkRule(
        "ieee",
        "pdf",
        Place.SCRIPT,
        r'"pdfPath"\s*:\s*"(\\?/[^"]{1,500})"',
        page=r"^https?://ieeexplore\.ieee\.org/",
        trust=93,
        example='<script>xplGlobal.document.metadata={"pdfPath":"/iel7/1/2/03.pdf"};</script>',
        example_page="https://ieeexplore.ieee.org/document/3",
        example_found="https://ieeexplore.ieee.org/iel7/1/2/03.pdf",
    ),
    LinkRule(
        "ieee-stamp",
        "pdf",
        Place.SCRIPT,
        r'"pdfUrl"\s*:\s*"(\\?/[^"]{1,500})"',
        page=r"^https?://ieeexplore\.ieee\.org/",
        trust=92,
        example='<script>xplGlobal.document.metadata={"pdfUrl":"\\/stamp\\/stamp.jsp?tp=&arnumber=3"};</script>',
        example_page="https://ieeexplore.ieee.org/document/3",
        example_found="https://ieeexplore.ieee.org/stamp/stamp.jsp?tp=&arnumber=3",
    ),
    LinkRule(
        "sciencedirect",
        "pdf",
        Place.SCRIPT,
        r'"pdfDownload"\s*:\s*\{[^{}]{0,500}"urlMetadata"\s*:\s*\{\s*"queryParams"\s*:\s*\{\s*"md5"\s*:\s*"(\w+)"\s*,'
        r'\s*"pid"\s*:\s*"([^"]{1,200})"\s*\}\s*,\s*"pii"\s*:\s*"(\w+)"\s*,\s*"pdfExtension"\s*:\s*"([^"]{1,20})"\s*,'
        r'\s*"path"\s*:\s*"([^"]{1,100})"',
        to=r"/\5/\3\4?md5=\1&pid=\2",
        page=r"^https?://www\.sciencedirect\.com/",
        trust=93,
        example='<script type="application/json">{"pdfDownload":{"isPdfFullText":true,"urlMetadata":{"queryParams":'
        '{"md5":"0a1b","pid":"1-s2.0-S1-main.pdf"},"pii":"S1","pdfExtension":"/pdfft","path":"science/article/pii"}}}'
        "</script>",
        example_page="https://www.sciencedirect.com/science/article/pii/S1",
        example_found="https://www.sciencedirect.com/science/article/pii/S1/pdfft?md5=0a1b&pid=1-s2.0-S1-main.pdf",
    ),
    LinkRule(
        "figshare",
        "pdf",
        Place.SCRIPT,
        r'"name"\s*:\s*"(?![^"]*suppl)[^"]{1,300}\.pdf"[^{}]{0,500}?"downloadUrl"\s*:\s*"([^"]{1,500})"',
        page=r"figshare|/articles/",
        trust=88,
        example='<script type="text/json">{"files":[{"id":1,"name":"suppl.pdf","downloadUrl":"/not"},'
        '{"id":2,"name":"paper.pdf","downloadUrl":"http://example.org/found"}]}</script>',
        example_page="https://figshare.com/articles/preprint/Title/1",
    ),
    LinkRule(
        "pdf-url-in-script",
        "pdf",
        Place.SCRIPT,
        r'"(?:pdf_?url|pdf_?link|pdf_?download_?url|full_?text_?pdf_?url)"\s*:\s*"((?:https?:|\\?/)[^"\s<>]{1,1000})"',
        trust=70,
        is_shared=True,
        example='<script>window.state = {"pdfUrl": "http:\\/\\/example.org\\/found"}</script>',
    ),
    LinkRule(
        "linkinghub",
        "",
        Place.INPUT,
        "redirectURL",
        trust=95,
        example='<input type="hidden" name="redirectURL" value="http%3A%2F%2Fexample.org%2Ffound">',
    ),
)

_MARKED = (
    LinkRule(
        "ojs-galley-pdf",
        "pdf",
        Place.ANCHOR,
        "obj_galley_link pdf",
        trust=89,
        is_shared=True,
        example='<a class="obj_galley_link pdf" href="/found">Texto</a>',
    ),
    LinkRule(
        "atypon-pdf-download",
        "pdf",
        Place.ANCHOR,
        "pdf-download",
        trust=80,
        is_shared=True,
        example='<a class="coolBar__ctrl pdf-download" href="/found">Get it</a>',
    ),
)

RULES: tuple[LinkRule, ...] = tuple(
    sorted((*_HEAD, *_FRAMES, *_ADDRESSES, *_SCRIPTED, *_MARKED), key=lambda rule: -rule.trust)
)

REPAIRS: tuple[Repair, ...] = (
    Repair(
        "ojs-galley",
        r"(https?://[^?#]+/(?:article|preprint|book))/(?:view|viewFile|viewPDFInterstitial)/([^/?#]+)/(?!version\b)([^/?#]+)/?",
        r"\1/download/\2/\3",
        "https://journal.example.org/index.php/xy/article/view/123/456",
        "https://journal.example.org/index.php/xy/article/download/123/456",
    ),
    Repair(
        "wiley",
        r"(https?://(?:[\w-]+\.)*onlinelibrary\.wiley\.com/doi)/e?pdf/([^?#]+).*",
        r"\1/pdfdirect/\2",
        "https://onlinelibrary.wiley.com/doi/epdf/10.1111/xyz.1",
        "https://onlinelibrary.wiley.com/doi/pdfdirect/10.1111/xyz.1",
    ),
    Repair(
        "atypon-reader",
        r"(https?://[^/?#]+/doi)/(?:epdf|reader)/(10\.[^?#]+).*",
        r"\1/pdf/\2",
        "https://www.tandfonline.com/doi/epdf/10.1080/1.2",
        "https://www.tandfonline.com/doi/pdf/10.1080/1.2",
    ),
    Repair(
        "invenio-preview",
        r"(https?://[^?#]+/records?/[^/?#]+)/preview/([^?#]+).*",
        r"\1/files/\2",
        "https://zenodo.org/records/123/preview/p.pdf?include_deleted=0",
        "https://zenodo.org/records/123/files/p.pdf",
    ),
    Repair(
        "mycore-viewer",
        r"(https?://[^?#]+)/rsc/viewer/(\w+_derivate_\d+/[^?#]+\.pdf).*",
        r"\1/servlets/MCRFileNodeServlet/\2",
        "https://repo.example.org/rsc/viewer/x_derivate_1/p.pdf?page=1",
        "https://repo.example.org/servlets/MCRFileNodeServlet/x_derivate_1/p.pdf",
    ),
    Repair(
        "janeway-galley",
        r"(https?://[^?#]+/article/[^/?#]+/galley/\d+)/view/?",
        r"\1/download/",
        "https://press.example.org/article/12/galley/34/view/",
        "https://press.example.org/article/12/galley/34/download/",
    ),
    Repair(
        "google-drive",
        r"https?://drive\.google\.com/(?:file/d/|open\?id=)([\w-]+).*",
        r"https://drive.google.com/uc?export=download&id=\1",
        "https://drive.google.com/file/d/abc_D-1/view?usp=sharing",
        "https://drive.google.com/uc?export=download&id=abc_D-1",
    ),
    Repair(
        "plone-file",
        r"(https?://[^?#]+\.pdf)/view/?",
        r"\1/at_download/file",
        "https://repo.example.org/docs/p.pdf/view",
        "https://repo.example.org/docs/p.pdf/at_download/file",
    ),
    Repair(
        "dropbox",
        r"(https?://www\.dropbox\.com/s[^?#]+)\?(?:[^#]*&)?dl=0.*",
        r"\1?dl=1",
        "https://www.dropbox.com/s/abc/p.pdf?dl=0",
        "https://www.dropbox.com/s/abc/p.pdf?dl=1",
    ),
    Repair(
        "github-blob",
        r"https?://github\.com/([^/]+/[^/]+)/blob/([^?#]+)",
        r"https://raw.githubusercontent.com/\1/\2",
        "https://github.com/o/r/blob/main/paper.pdf",
        "https://raw.githubusercontent.com/o/r/main/paper.pdf",
    ),
)
"""Addresses that show a file inside a page, and the file's own. Each is tried before the address it was made from."""


@dataclass(frozen=True)
class RuleSet:
    """The rules to read pages by, and what an anchor must have in it to be looked at."""

    rules: tuple[LinkRule, ...]
    matters: Matters


@lru_cache(maxsize=64)
def rule_set(own: tuple[LinkRule, ...] = ()) -> RuleSet:
    """The built-in rules with a user's own before those that are trusted alike."""
    rules = (*own, *RULES)
    keys = (rule.key for rule in rules if rule.place is Place.ANCHOR)
    return RuleSet(rules, matters(word for key in keys for word in key.strip("'\"").lower().split()))
