"""The files of words/ are well-formed, and each phrase in them is found where it should be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_ingest.ingest.page.interstitials import is_notice
from datasette_ingest.ingest.page.phrases import FOLDER, PATTERNS, WORDS, any_of, pattern, read_files

FILES = read_files(FOLDER)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_a_file_is_named_by_a_language_code_and_its_lines_are_short(path: Path) -> None:
    assert path.stem == "common" or re.fullmatch(r"[a-z]{2}", path.stem)
    assert max(map(len, path.read_text("utf-8").splitlines())) <= 160


TABLES = [
    pytest.param(table, file[table], id=f"{code}-{table}")
    for code, file in FILES.items()
    for table in PATTERNS
    if table in file
]
NO_CONTROL = st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp"))


def finds(table: str, text: str) -> bool:
    """Whether a table finds a text that matches one of its patterns."""
    section, *kind, place = table.split(".")
    if section == "interstitials" and place != "text":
        return is_notice(*kind, text)
    if table == "links.not_the_work_urls":
        text = f"/{text}/"
    whole = section == "page" and place != "keywords"
    return bool(pattern(table).fullmatch(text) if whole else pattern(table).search(text))


@pytest.mark.parametrize(("table", "patterns"), TABLES)
@given(data=st.data())
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_each_phrase_is_found(table: str, patterns: tuple[str, ...], data: st.DataObject) -> None:
    for phrase in patterns:
        start, colon, _ = phrase.partition("(?=:)")
        text = data.draw(st.from_regex(start, fullmatch=True, alphabet=NO_CONTROL)) + (":" if colon else "")
        assert finds(table, text), (phrase, text)


def test_a_table_that_nobody_reads_is_no_table() -> None:
    used = {table for file in FILES.values() for table in file}
    assert used <= {*PATTERNS, *WORDS}
    assert used >= WORDS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[links", "xx.toml: "),
        ('[links]\nfull_tekst = "x"', "xx.toml: unknown table links.full_tekst"),
        ("[page]\nabstract = [5]", "xx.toml: page.abstract must be a list of texts"),
        ("[page]\nabstract = 5", "xx.toml: page.abstract must be a list of texts"),
        ('[page]\nabstract = ["%nobody%"]', "xx.toml: %nobody% stands in a pattern and not under [names]"),
        ('months = ["jan"]', "xx.toml: months has 1 texts, not 12"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "xx.toml").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"xx\.toml") as refused:
        read_files(tmp_path)
    assert says in str(refused.value)


def test_a_pattern_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match=r"not a regular expression: 'b\('"):
        any_of(["a", "b(", "c"])


def test_a_name_is_the_files_own_or_else_any_files(tmp_path: Path) -> None:
    (tmp_path / "aa.toml").write_text('[names]\nerror = ["oops"]\n[page]\nabout = ["%error%!"]', "utf-8")
    (tmp_path / "bb.toml").write_text('[names]\nerror = ["ups", "hoppla"]\n', "utf-8")
    (tmp_path / "common.toml").write_text('[page]\nabout = ["%error%"]', "utf-8")
    files = read_files(tmp_path)
    assert files["aa"]["page.about"] == ("(?:oops)!",)
    assert files["common"]["page.about"] == ("(?:oops|ups|hoppla)",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Not found", True),
        ("Page not found: go back to the start page", False),
        ("Page not found: 404", True),
        ("Not found in nature: alkaloids of the moss", False),
        ("The page you requested could not be found on our server", True),
        ("The page you requested could not be found" + " and so on" * 20, False),
    ],
)
def test_a_notice_is_the_whole_text_or_its_opening_words(text: str, says: bool) -> None:
    assert is_notice("missing", text) is says
