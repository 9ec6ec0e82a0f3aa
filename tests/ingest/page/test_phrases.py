"""The files of words/ are well-formed, and each phrase in them is found where it should be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_ingest.ingest.page.phrases import COMMON, FOLDER, Interstitials, any_of, phrase_files, phrases

FILES = phrase_files()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_a_file_is_named_by_a_language_code_and_its_lines_are_short(path: Path) -> None:
    assert path.stem == COMMON or re.fullmatch(r"[a-z]{2}", path.stem)
    assert max(map(len, path.read_text("utf-8").splitlines())) <= 160


Found = Callable[[str], object]


def tables() -> Iterator[tuple[str, tuple[str, ...], Found]]:
    """(Name, patterns, what must find a text that matches one of them) of each table of each file."""
    known = phrases()
    page, links, markup = known.page, known.links, known.markup
    for code, file in FILES.items():
        for kind in Interstitials.model_fields:
            given, says = getattr(file.interstitials, kind), getattr(known.interstitials, kind)
            yield f"{code}-{kind}-whole", given.whole, says.says
            yield f"{code}-{kind}-opening", given.opening, says.says
            yield f"{code}-{kind}-text", given.text, says.is_in
        yield f"{code}-sections", file.page.sections, page.section_heading.fullmatch
        yield f"{code}-references", file.page.references, page.references_heading.fullmatch
        yield f"{code}-abstract", file.page.abstract, page.abstract_heading.fullmatch
        yield f"{code}-keywords", file.page.keywords, page.keywords_line.match
        yield f"{code}-preview", file.page.preview, page.preview_label.fullmatch
        yield f"{code}-about", file.page.about, page.about_title.fullmatch
        yield f"{code}-file-headings", file.links.file_headings, links.file_heading.match
        yield f"{code}-other-headings", file.links.other_headings, links.other_heading.match
        yield f"{code}-urls", file.links.not_the_work_urls, lambda text: links.not_the_work_url.search(f"/{text}/")
        yield f"{code}-challenge", file.markup.challenge, markup.challenge_mark.search
        yield f"{code}-captcha", file.markup.captcha, markup.captcha_mark.search
        yield f"{code}-federation", file.markup.federation, markup.federation_mark.search


TABLES = [pytest.param(patterns, found, id=name) for name, patterns, found in tables() if patterns]
NO_CONTROL = st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp"))


@pytest.mark.parametrize(("patterns", "found"), TABLES)
@given(data=st.data())
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_each_phrase_is_found(patterns: tuple[str, ...], found: Found, data: st.DataObject) -> None:
    for pattern in patterns:
        start, colon, _ = pattern.partition("(?=:)")
        text = data.draw(st.from_regex(start, fullmatch=True, alphabet=NO_CONTROL)) + (":" if colon else "")
        assert found(text), (pattern, text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[links", "xx.toml: "),
        ('[links]\nfull_tekst = "x"', "full_tekst"),
        ("[page]\nabstract = [5]", "xx.toml: "),
        ('[page]\nabstract = ["%nobody%"]', "xx.toml: %nobody% stands in a pattern and not under [names]"),
        ('months = ["jan"]', "xx.toml: months: 1 lists, not 12"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "xx.toml").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"xx\.toml") as refused:
        phrase_files(tmp_path)
    assert says in str(refused.value)


def test_a_pattern_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match=r"not a regular expression: 'b\('"):
        any_of(["a", "b(", "c"])


def test_a_name_is_the_files_own_or_else_any_files(tmp_path: Path) -> None:
    (tmp_path / "aa.toml").write_text('[names]\nerror = ["oops"]\n[page]\nabout = ["%error%!"]', "utf-8")
    (tmp_path / "bb.toml").write_text('[names]\nerror = ["ups", "hoppla"]\n', "utf-8")
    (tmp_path / "common.toml").write_text('[page]\nabout = ["%error%"]', "utf-8")
    files = phrase_files(tmp_path)
    assert files["aa"].page.about == ("(?:oops)!",)
    assert files["common"].page.about == ("(?:oops|ups|hoppla)",)


@pytest.mark.parametrize(
    ("text", "is_notice"),
    [
        ("Not found", True),
        ("Page not found: go back to the start page", False),
        ("Page not found: 404", True),
        ("Not found in nature: alkaloids of the moss", False),
        ("The page you requested could not be found on our server", True),
        ("The page you requested could not be found" + " and so on" * 20, False),
    ],
)
def test_a_notice_is_the_whole_text_or_its_opening_words(text: str, is_notice: bool) -> None:
    assert phrases().interstitials.missing.says(text) is is_notice
