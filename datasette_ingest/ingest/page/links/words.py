"""The words that links to full text consist of, and those that give away something else, in the languages that
repositories and journals use. Data only; score.py says what each is worth."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True)
class Wanted:
    """What shows that a link leads to files of one type."""

    mimetypes: frozenset[str]
    words: frozenset[str]
    """Names of the type, on labels and in class names."""
    path_end: re.Pattern[str]
    """What the path of such a file ends in."""
    path_part: re.Pattern[str]
    """What the URL of such a file has in it on many sites."""


WANTED: dict[str, Wanted] = {
    "pdf": Wanted(
        frozenset({"application/pdf", "application/x-pdf"}),
        _words("pdf pdfs epdf galleypdf pdfdirect"),
        re.compile(r"\.pdf$", re.I),
        re.compile(
            r"/(?:e?pdf|pdfdirect|pdfft|pdfplus|full-?pdf|download-?pdf|pdf-?download)(?=[/?;]|$)|(?:type|format|blobtype|filetype)=(?:pdf|printable)|[?&]pdf=(?:render|1)|\.pdf(?=[?;&/]|$)|/(?:get|view|show|stamp|print|open)_?-?pdf(?=[/?.;]|$)",
            re.I,
        ),
    ),
    "xml": Wanted(
        frozenset({"application/xml", "text/xml", "application/jats+xml", "application/tei+xml"}),
        _words("xml jats nxml tei"),
        re.compile(r"\.n?xml$", re.I),
        re.compile(r"/(?:xml|jats|nlm|fulltextxml)(?=[/?;]|$)|(?:type|format)=(?:xml|manuscript|jats)", re.I),
    ),
    "html": Wanted(
        frozenset({"text/html", "application/xhtml+xml"}),
        _words("html htm"),
        re.compile(r"\.x?html?$", re.I),
        re.compile(r"/(?:full|fulltext|full-text|html)(?=[/?;]|$)|(?:format|type)=html|sci_arttext", re.I),
    ),
}

FULL_TEXT = _words(
    """fulltext fulltexts volltext volltexte texteintégral texte-intégral plný pełny fulltekst fuldtekst kokoteksti
    全文 本文 원문 전문"""
)
"""One word that says "the whole text"."""

FULL_TEXT_PAIRS: tuple[frozenset[str], ...] = tuple(
    _words(pair)
    for pair in (
        "full text",
        "texto completo",
        "texte intégral",
        "texte complet",
        "testo completo",
        "testo integrale",
        "text complet",
        "tam metin",
        "полный текст",
        "повний текст",
        "pełny tekst",
        "plný text",
        "teks lengkap",
        "naskah lengkap",
        "volledige tekst",
        "πλήρες κείμενο",
        "puni tekst",
        "cijeli tekst",
        "celé znenie",
        "اصل مقاله",
        "النص الكامل",
        "full article",
        "full paper",
        "complete article",
        "artículo completo",
        "artigo completo",
    )
)

DOWNLOAD = _words(
    """download downloads descargar descarga baixar télécharger telecharger téléchargement herunterladen scarica
    downloaden pobierz stáhnout stažení скачать завантажити загрузить indir unduh preuzmi letöltés lataa ladda last
    下载 下載 ダウンロード 다운로드 view/open ouvrir abrir öffnen open apri otwórz visualizar ver voir anzeigen accéder
    lihat görüntüle κατέβασμα تحميل تنزيل دانلود bitstream"""
)
"""Words for getting a file."""

DOWNLOAD_PARTS = ("下载", "下載", "ダウンロード", "全文", "다운로드", "تحميل", "تنزيل", "دانلود")
"""The same in scripts that put no blanks between words."""

WORK = _words(
    """article articles paper manuscript artigo artículo articulo artikel articolo artykuł článek статья стаття makale
    document documento dokument file fichier datei archivo arquivo ficheiro preprint postprint thesis dissertation tesis
    tese thèse version versión versão publisher published accepted author final original eprint submission
    论文 文章 論文 논문 مقاله"""
)
"""Words for the work itself."""

HARMLESS = _words(
    """a access an and as at bytes click complete completo da das de del der des die do document download el em en
    english español espanol for format français frei free from full fulltext gb get gratis herunterladen here hier html
    im in inline integral intégral journal kb la le les link mb mo ko nlm now of on online open or para pdf português
    print quick read restricted save see screen show size téléchargement télécharger tekst text texte texto the this to
    um un une view viewer voir web window with xml as-pdf nouvelle fenêtre new tab opens access acesso acceso libre
    aberto abierto deutsch italiano türkçe русский inglés inglês spanish portuguese german french ru es pt fr de it tr
    en id enhanced standard high low resolution optimized mobile printable print-friendly tagged embargo icon adobe
    reader publication complète version accepted published submitted galley proof"""
)
"""Words that may stand beside the wanted ones on a link to the work itself."""

NOT_THE_WORK = _words(
    """supplement supplements supplementary supplemental supporting suppl supp suppfile suppfiles suplementario
    suplementarios suplementar suplementares complementario complementarios complementar complémentaire
    complémentaires zusatzmaterial ergänzende anhang appendix appendices annex annexe annexes anexo anexos anejo
    figure figures fig figs figura figuras abbildung abbildungen image images imagen slide slides powerpoint ppt poster
    graphical video table tables tabla tabela tabelas tableau tabelle contents toc índice indice sumario sommaire
    inhaltsverzeichnis index preview sample excerpt leseprobe extrait muestra amostra estratto first page
    cover covers frontmatter front-matter backmatter masthead portada capa umschlag couverture titlepage flyer brochure
    leaflet prospectus catalogue catalog katalog policy policies privacy cookie cookies terms conditions legal imprint
    impressum datenschutz guidelines guideline guide instructions normas directrices hinweise anleitung template
    templates plantilla form forms formular formulario formulaire checklist agreement consent declaration license
    licence licencia lizenz licença copyright permission permissions help faq handbook manual tutorial howto newsletter
    issue issues volume fascicule fascículo número heft ausgabe complete-issue citation citations cite bibtex ris
    endnote export references reference bibliography review reviews reviewer reviewers peer decision referee response
    rebuttal reporting correction corrigendum erratum errata retraction comment comments letter reply presentation
    preface foreword vorwort préface prefacio prefácio proceedings fm spikblad omslag abstract abstracts resumen resumo résumé zusammenfassung streszczenie aннотация summary highlights data dataset
    datasets code software metadata license.txt protocol questionnaire survey cv vita curriculum press release media
    kit rate rates advert advertising advertisement sponsor jobs career careers report-error statistics stats altmetric
    metrics certificate award rules bylaws statutes calendar agenda programme program schedule registration map plan
    buy purchase price order subscribe subscription login rent cart request copy supporting-information esm mmc s1 s001
    sm biosketch annual ethics disclosure transcript audio handout syllabus exercises solutions exam errata lösungen anc
    titelblatt lebenslauf danksagung widmung nutzungsbedingungen agb kvkk gizlilik şablon şablonu şablonlar şartlar
    dosya sözleşme lizenzbestimmungen mentions légales avisolegal privacidad privacidade confidentialité ancillary thumbnail xls csv readme guia guía bases convocatoria edital"""
)
"""Words that say a file is something beside the work, or something to be paid for."""

NOT_THE_WORK_PARTS = (
    *(
        "附录",
        "附件",
        "补充",
        "目录",
        "目次",
        "封面",
        "指南",
        "须知",
        "投稿",
        "模板",
        "版权",
        "政策",
        "说明",
        "引用",
        "评论",
        "摘要",
        "要旨",
        "審査",
        "预览",
    ),
    *("付録", "補足", "表紙", "規程", "規定", "要領", "書式", "執筆", "著作権", "案内", "抄録"),
    *("부록", "목차", "표지", "안내", "규정", "초록"),
    *("приложени", "содержани", "обложк", "правила", "оферт", "политик", "договор", "аннотаци", "рецензи", "инструкци"),
    *("зміст", "додат", "правил", "обкладинк", "анотаці"),
    *("ملحق", "غلاف", "تعليمات", "دليل", "سياسة", "قالب", "شروط", "راهنما", "پیوست"),
    *(
        "εξώφυλλο",
        "περίληψη",
        "οδηγίες",
        "declaraç",
        "declaraci",
        "instruç",
        "pedoman",
        "petunjuk",
        "sampul",
        "daftar isi",
        "yazım",
        "kılavuz",
    ),
)
"""The same as parts of words, for scripts without blanks and languages with endings."""

NOT_IN_PATH = re.compile(
    r"(?:^|[/_.\-=?&%])(?:suppl?(?:ement(?:ary|al)?)?(?:s|data|info|files?)?|supporting[-_]?info\w*|appendi(?:x|ces)|annex\w*|"
    r"esm|moesm\d+|mmc\d+|s\d{3}|media[-_]?objects|fig(?:ure)?s?[-_]?\d*|cover|toc|flyer|brochure|privacy|terms|cookies?|"
    r"polic(?:y|ies)|guidelines?|instructions?|template|licen[cs]e|checklist|preview|sample|thumb(?:nail)?s?|cv|poster|"
    r"slides?|codebook|readme|changes|changelog|release[-_]?notes|programme?|schedule|agenda|excerpts?|introduction|isallowed=n|book[-_]of[-_]abstracts|mulu|titelblatt|lebenslauf|nutzungsbedingungen|agb|kvkk|issue[-_]?(?:full|file|pdf)[\w-]*|(?:full|whole|complete)[-_]?issue|issue/(?:view|download)|journal-file|[a-z]*checklist[a-z]*|newsletter|media[-_]?kit|faq|form|front[-_]?matter|fm|preface|foreword|search[-_]?report|_action=xml|back[-_]?matter|masthead|ratecard|agreement|"
    r"downloadsupp\w*|downloadfigures?|suppfiles?\w*|powerpoint|peer[-_]?review\w*|reporting[-_]?summary|anc|"
    r"downloadcitation\w*|request[-_]a[-_]copy|request[-_](?:item|doc)|type=(?:supplementary|additional))(?=[/_.\-=?&%]|$)",
    re.I,
)
"""As NOT_THE_WORK, in a URL."""

OTHER_FILES = re.compile(
    r"\.(?:csv|tsv|xlsx?|ods|docx?|odt|rtf|txt|md|tex|zip|gz|tgz|rar|7z|tar|png|jpe?g|gif|tiff?|svg|webp|mp[34]|avi|mov|wav|ris|bib|enw|nbib|"
    r"epub|mobi|pptx?|odp|json|r|py|ipynb|sav|dta|rds|nc|fasta|css|js)$",
    re.I,
)
"""What the paths of files of other kinds end in."""

VERSIONS = _words(
    """accepted postprint post-print preprint pre-print publisher published author manuscript aam vor submitted
    eprint draft"""
)
"""Which version of the work a file is; who says so speaks of the work."""

ELSEWHERE = _words(
    """references reference reflist bibliography biblio bibr citations literatur literatura referencias referências
    bibliografía bibliografia related relatedarticles similar recommended recommendations recommendation suggested
    suggestions mostread most-read popular trending latest recent morelike citedby cited-by carousel promo
    advert advertisement banner cookie cookies consent gdpr footer colophon breadcrumb breadcrumbs legal sponsor
    sponsors newsletter comments respond rebuttal news refs citing citing-papers citedby cited navbar supplementary supplement supplements supplemental suppl
    supporting-information ancillary anc tocs widget_recent_entries links-extern policies guidelines submissions
    makesubmission for-authors forauthors buybox buy-box purchase pay paywall comment-list see-also seealso navbox"""
)
"""Class names and ids of the parts of a page that speak of other things."""

SUPPLEMENTS = frozenset(word for word in ELSEWHERE if word.startswith(("suppl", "supporting", "anc")))

AT_THE_WORK = _words(
    """galley galleys galleys_links download downloads fulltext full-text fulltexts file files bitstream bitstreams
    filelist file-list file-section documents document toolbar tools article-tools actions action item-page pdf
    attachments attachment primary access entry_details entry-details article-actions article__toolbar viewer
    mainfile ep_block document-list"""
)
"""Class names and ids of the parts of a page that hold the work's own files."""

WORKS_MARKS = _words(
    """file_download fulltext full-text galley obj_galley_link galley-link document-link article-download downloadpdf
    download-pdf pdf-download article-pdf main-pdf"""
)
"""Class names and ids of links to the work's own file."""

FURNITURE: dict[str, int] = {"footer": 45, "dialog": 45, "nav": 25, "header": 10}
"""Elements that are the site's rather than the work's, and how many points that takes."""

FILE_HEADINGS = re.compile(
    r"[\W\d]*(?:(?:full|complete)[ -]?texts?|download|files?\b|view ?/ ?open|pdf|documents?\b|volltext|dateien|dokument"
    r"|fichiers?\b|texte intégral|archivos?\b|ficheros?\b|texto completo|descarga|arquivos?\b|ficheiros?\b|testo completo|allegati"
    r"|galley|tam metin|unduh|файлы|полный текст|файли|повний текст|全文|本文|available (?:files|downloads|versions))",
    re.I,
)
"""Headings of the parts that hold the work's files."""

MARKED_AS_ANOTHER = _words(
    """supplement supplements supplementary supplemental supporting suppl supp cover covers flyer preview sample toc
    license licence guidelines figure figures slides poster errata erratum"""
)
"""Class names and ids of links to something beside the work."""

BESIDE_ANOTHER = MARKED_AS_ANOTHER - _words("license licence figure figures") | _words(
    "search preface foreword frontmatter backmatter contents index supplementary titelblatt lebenslauf"
)
"""What is said of such a file in a few words beside its link."""

ELSEWHERE_HEADINGS = re.compile(
    r"[\W\d]*(?:references?|bibliograph\w+|literature|literatur\w*|referencias|referências|bibliografía|bibliografia|références"
    r"|kaynak\w*|daftar pustaka|список литературы|литература|литератури|параметры цит|参考文献|引用文献|参考|المراجع|notes|footnotes"
    r"|works cited|cited|cit(?:e|ing|ation)s?\b|citazioni|zitier\w*|how to cite|cómo citar|como citar"
    r"|related|similar|recommend\w*|suggested|most (?:read|cited|viewed|downloaded)|popular|latest|recent|trending"
    r"|more (?:from|by|like|articles|in)|(?:readers?|people|users?|others|visitors) (?:who|also)|(?:next|previous) (?:article|paper)|from (?:this|the)|in this issue|you (?:may|might)|also (?:read|like)|other articles"
    r"|articles? (?:similaires|liés|connexes|relacionados)|artículos (?:similares|relacionados|más)|artigos (?:similares|relacionados|mais)"
    r"|ähnliche|verwandte|benzer|похожие|схожі|artikel (?:serupa|terkait|lainnya)|相关|相似|関連|مقالات ذات"
    r"|table of contents|contents|sommaire|inhalt\w*|índice|sumário|sumario|indice|in this volume|see also|further reading|external links|news|quick links|about|archives?|announcements?|aktuelles|actualit\w+|noticias|notícias"
    r"|(?:information |hinweise )?(?:for|für|para|pour|untuk) (?:authors?|readers?|librarians?|reviewers?|autor\w*|leser\w*|lector\w*|leitor\w*|auteurs?|lecteurs?|penulis|pembaca)"
    r"|yazarlar|авторам|author guidelines|make a submission|current issue|guidelines|policies|templates?|downloads? for authors"
    r"|supplement\w*|supporting|suplement\w+|complementari\w+|appendi\w+|annex\w*|anexos?|anhang|anhänge"
    r"|additional (?:files?|material|information)|extended data|ancillary|zusatzmaterial\w*|peer review|review (?:history|files?)"
    r"|source data|reporting summary|export\w*|buy|purchase|get access|access options|rent|subscribe)(?!\w).*",
    re.I,
)
"""Headings of such parts."""


_STEMS = _words(
    """pdf xml html jats full text tekst download descarg baixar charger herunterladen scarica downloaden pobierz
    view/open abrir indir unduh preuzmi ladda bitstream viewcontent getfile viewfile galley article-file
    тек скач загру завантаж stáhn stažen letölt télécharg теле intégral pełn metin κείμενο الكامل
    下载 下載 ダウンロード 다운로드 تحميل تنزيل دانلود 全文 本文 원문 전문"""
)


@dataclass(frozen=True)
class Matters:
    """What makes a link worth a look: a part of a word for files of some type, for full text or for getting it, or a
    rule's key. Parts of words, since a search for one is many times quicker than a regular expression for all."""

    ascii: tuple[str, ...]
    others: tuple[str, ...]

    def in_(self, text: str) -> bool:
        """Whether a lower-case text holds one of them."""
        for part in self.ascii:
            if part in text:
                return True
        return not text.isascii() and any(part in text for part in self.others)


def matters(extra: Iterable[str] = ()) -> Matters:
    """What matters, with the words of `extra`, the keys of rules."""
    words = _shortest(_STEMS | {word.lower() for word in extra})
    return Matters(tuple(w for w in words if w.isascii()), tuple(w for w in words if not w.isascii()))


def _shortest(words: Iterable[str]) -> list[str]:
    """The words without those that hold another one: whoever finds the part finds the whole."""
    kept: list[str] = []
    for word in sorted(words, key=len):
        if word and not any(short in word for short in kept):
            kept.append(word)
    return kept
