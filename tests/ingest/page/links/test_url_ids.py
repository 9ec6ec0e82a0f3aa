"""A work's own links are told from its neighbours' by the ids in its page's address."""

from __future__ import annotations

import pytest

from datasette_ingest.ingest.page.links.url_ids import IdMatch, ids_of


@pytest.mark.parametrize(
    ("page", "link", "kinship"),
    [
        ("https://h/article/view/123", "https://h/article/download/123/456", IdMatch.OWN),
        ("https://h/article/view/123", "https://h/article/download/1234/5", IdMatch.UNKNOWN),
        ("https://h/article_12.html", "https://h/article_12_ab.pdf", IdMatch.OWN),
        ("https://h/article_12.shtml", "https://h/article_12_ab.pdf", IdMatch.OWN),
        ("https://h/records/99120034", "https://h/records/99120034/files/p.pdf", IdMatch.OWN),
        ("https://h/papers/the-long-tide", "https://h/files/the-long-tide.pdf", IdMatch.OWN),
        ("https://h/handle/10210/88123", "https://h/bitstream/handle/10210/88124/p.pdf", IdMatch.NEAR),
        ("https://h/article/2201", "https://h/download/2190", IdMatch.OTHER),
        ("https://h/zap9417", "https://h/php/getFT?paperid=9417", IdMatch.NUMBER),
        ("https://h/doi/a-9417-0001", "https://h/pdf/a-9417-0009.pdf", IdMatch.OTHER),
        ("https://h/summary;jsessionid=A12345678?doi=10.1.1.26.2787", "https://h/pdf?doi=10.1.1.26.2787", IdMatch.OWN),
        ("https://h/about", "https://h/files/p.pdf", IdMatch.UNKNOWN),
        ("https://h/%D1%82%D0%B5%D0%BA-77", "https://h/pdf/тек-77.pdf", IdMatch.OWN),
    ],
)
def test_an_address_says_whose_file_it_is(page: str, link: str, kinship: IdMatch) -> None:
    assert ids_of(page).match(link) is kinship


def test_the_doi_of_the_head_names_the_work_where_the_address_does_not() -> None:
    ids = ids_of("https://h/item", "10.5555/Salt.1")
    assert ids.match("https://h/doi/pdf/10.5555/salt.1") is IdMatch.OWN
    assert ids.match("https://h/doi/pdf/10.5555/salt.12") is IdMatch.UNKNOWN


def test_the_prefix_of_a_doi_is_the_publishers() -> None:
    assert ids_of("https://h/doi/10.1177/123456").match("https://h/doi/pdf/10.1177/999999") is IdMatch.OTHER
