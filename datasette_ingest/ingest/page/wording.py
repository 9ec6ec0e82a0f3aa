"""The names of an article's parts, in the languages that journals and repositories are written in. Patterns only."""

from __future__ import annotations

import re

_NUMBER = r"(?:(?:[\divx]+(?:\.\d+)*|[a-h])\s*[.):、．]?\s*|第?[一二三四五六七八九十]+[章节節、．.]?\s*)?"


def _heading(*groups: str) -> re.Pattern[str]:
    """Headings that consist of one of the names, perhaps numbered."""
    return re.compile(rf"\W*{_NUMBER}(?:{'|'.join(groups)})\W*", re.IGNORECASE)


def _words(text: str) -> str:
    return "|".join(re.escape(word.strip()).replace(r"\ ", r"\s+") for word in text.strip().split(",") if word.strip())


SECTIONS = _heading(
    r"introduction|background|(?:(?:patients?|subjects?|materials?) and )?methods?(?: and materials)?|methodology"
    r"|results?(?: and discussions?)?|(?:general )?discussions?(?: and conclusions?)?"
    r"|(?:concluding remarks|conclusions?)"
    r"|case (?:report|presentation|description)|theory|experiment(?:al|s)?(?: section)?|related work|evaluation"
    r"|limitations",
    _words(
        """einleitung, einführung, hintergrund, material und methoden, methode, methoden, methodik, ergebnisse,
        ergebnisse und diskussion, diskussion, fazit, schluss, schlussfolgerung, schlussfolgerungen, zusammenfassung und ausblick"""
    ),
    _words(
        """contexte, matériel et méthodes, matériels et méthodes, méthode, méthodes, méthodologie, résultats,
        résultats et discussion, conclusion générale"""
    ),
    _words(
        """introducción, antecedentes, material y métodos, materiales y métodos, métodos, metodología, resultados,
        resultados y discusión, discusión, conclusión, conclusiones"""
    ),
    _words(
        """introdução, material e métodos, materiais e métodos, metodologia, resultados e discussão, discussão,
        conclusão, conclusões, considerações finais"""
    ),
    _words(
        "introduzione, materiali e metodi, metodi, risultati, risultati e discussione, discussione, conclusioni, conclusione"
    ),
    _words(
        "inleiding, methode, resultaten, discussie, conclusie, wstęp, materiał i metody, metody, wyniki, dyskusja, wnioski"
    ),
    _words("úvod, metodika, výsledky, diskuse, závěr, uvod, metode rada, rezultati, rasprava, zaključak"),
    _words("введение, материалы и методы, методы, результаты, результаты и обсуждение, обсуждение, выводы, заключение"),
    _words("вступ, матеріали та методи, результати, обговорення, висновки"),
    _words("giriş, yöntem, yöntemler, gereç ve yöntem, bulgular, tartışma, sonuç, sonuçlar, tartışma ve sonuç"),
    _words(
        "pendahuluan, metode, metode penelitian, hasil, hasil dan pembahasan, pembahasan, kesimpulan, simpulan, penutup"
    ),
    _words(
        "مقدمة, المقدمة, المنهجية, منهج البحث, مواد وطرق العمل, النتائج, النتائج والمناقشة, المناقشة, الخاتمة, الاستنتاجات"
    ),
    _words("مقدمه, روش ها, روش تحقیق, یافته ها, بحث, نتیجه گیری"),
    _words(
        "引言, 前言, 绪论, 緒論, 导论, 材料与方法, 方法, 研究方法, 结果, 結果, 结果与分析, 讨论, 討論, 结果与讨论, 结论, 結論, 结语"
    ),
    _words(
        "はじめに, 緒言, 緒論, 序論, 材料と方法, 材料および方法, 方法, 結果, 結果と考察, 考察, 結論, おわりに, まとめ"
    ),
    _words("서론, 연구 방법, 방법, 재료 및 방법, 결과, 연구 결과, 고찰, 논의, 결론"),
)
"""Headings by which articles divide their text."""

REFERENCES = _heading(
    r"(?:list of )?references(?: (?:cited|and notes|list))?|reference list|bibliography|works cited"
    r"|literature(?: cited)?|notes|footnotes",
    _words("literatur, literaturverzeichnis, quellen, références, références bibliographiques, bibliographie"),
    _words(
        "referencias, referencias bibliográficas, bibliografía, referências, referências bibliográficas, bibliografia"
    ),
    _words("riferimenti bibliografici, literatuur, piśmiennictwo, literatura, reference, reference list"),
    _words("литература, список литературы, библиография, библиографический список, література, список літератури"),
    _words("kaynakça, kaynaklar, daftar pustaka, referensi, المراجع, المصادر, المصادر والمراجع, قائمة المراجع, منابع"),
    _words("参考文献, 參考文獻, 引用文献, 文献, 문헌, 참고문헌, 참고 문헌, 注释, 註"),
)
"""Headings above a list of other works."""

_ABSTRACT_WORDS = _words(
    """abstract, author abstract, summary, graphical abstract, plain language summary, zusammenfassung, kurzfassung, abstrakt, résumé,
    resumen, resumo, riassunto, sommario, samenvatting, streszczenie, abstrakt, souhrn, sažetak, аннотация, реферат, резюме, анотація,
    öz, özet, abstrak, ringkasan, intisari, ملخص, الملخص, المستخلص, خلاصة, چکیده, 摘要, 摘 要, 内容提要, 要旨, 抄録, 要約, 概要, あらまし, 초록, 국문초록, 요약"""
)
ABSTRACT = re.compile(rf"\W*(?:{_ABSTRACT_WORDS})(?:\W+[a-z]{{2,12}})?\W*", re.IGNORECASE)
"""Headings above an abstract, perhaps with its language."""
ABSTRACT_LINE = re.compile(rf"\W*(?:{_ABSTRACT_WORDS})\s*[:：.。．\-–—\]】]", re.IGNORECASE)
"""The beginning of an abstract that says so itself."""

PREVIEW = re.compile(
    r"(?:this is an? )?(?:preview|excerpt|sample) of (?:the |this )?(?:subscription|paid|premium)?[\w\s]{0,30}"
    r"|(?:access|subscription|purchase|payment) options"
    r"|(?:get|buy|purchase|request) (?:full |instant |online |institutional )?access.{0,30}"
    r"|(?:buy|purchase|rent|order) (?:this |the |single )?(?:article|chapter|pdf|paper|issue).{0,30}"
    r"|access (?:this|the) (?:article|chapter|full text)"
    r"|(?:log|sign) in (?:or subscribe )?to (?:read|view|access|continue).{0,40}"
    r"|subscribe (?:now )?to (?:read|view|continue).{0,40}|subscribers? only.{0,30}"
    r"|(?:first|1st) page preview|you (?:do not|don't) have access.{0,40}|zugang (?:kaufen|erhalten)"
    r"|artikel kaufen.{0,20}|leseprobe"
    r"|acheter (?:cet |l')article.{0,20}|accès réservé.{0,30}|comprar (?:este )?artículo.{0,20}"
    r"|comprar (?:este )?artigo.{0,20}|acesso restrito.{0,30}"
    r"|acceso restringido.{0,30}|купить (?:статью|доступ).{0,20}|доступ платный.{0,20}|购买(?:本文|文章|全文).{0,10}"
    r"|本文を購入.{0,10}",
    re.IGNORECASE,
)
"""Labels that offer the rest of a text for money, or to members."""

KEYWORDS_LINE = re.compile(
    r"\W*(?:key\s?words?|index terms|schlüsselwörter|schlagwörter|mots[\s-]clés|palabras[\s-]clave|palavras[\s-]chave"
    r"|parole chiave|trefwoorden|słowa kluczowe|ключевые слова|ключові слова|anahtar (?:kelimeler|sözcükler)"
    r"|kata kunci"
    r"|الكلمات المفتاحية|كلمات مفتاحية|关键词|關鍵詞|キーワード|주제어|키워드)\b",
    re.IGNORECASE,
)
