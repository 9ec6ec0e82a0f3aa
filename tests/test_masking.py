"""Passwords of URLs: every spelling that a person, a program or a server may use, and what looks like one and is none."""

from __future__ import annotations

import json
import string
from urllib.parse import quote

import ada_url
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from datasette_ingest.masking import mask, mask_url

SECRET = "hunter2"

RFC_3986 = ":/?#[]@!$&'()*+,;=-._~%"
WHATWG = '"<>`^{}|\\ \t'
"""What browsers percent-encode in a user or password, or take for the end of the host."""


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        # Schemes and slashes
        ("http://u:p@host/x", "http://***@host/x"),
        ("HTTPS://u:p@host/x", "HTTPS://***@host/x"),
        ("https://token@host/", "https://***@host/"),
        ("redis://:p@host", "redis://***@host"),
        ("git+ssh://u:p@host/x.git", "git+ssh://***@host/x.git"),
        ("9ssh://u:p@host", "9ssh://***@host"),
        ("file://u:p@host/x", "file://***@host/x"),
        ("://u:p@host", "://***@host"),
        ("http:u:p@host", "http:***@host"),
        ("http:/u:p@host", "http:/***@host"),
        ("http:////u:p@host", "http:////***@host"),
        ("http:\\\\u:p@host", "http:\\\\***@host"),
        ("http:\\/\\/u:p@host\\/", "http:\\/\\/***@host\\/"),
        ("//u:p@host/x", "//***@host/x"),
        ("\\\\u:p@host\\x", "\\\\***@host\\x"),
        ("u:p@host/path", "***@host/path"),
        ("u:p@host:3128", "***@host:3128"),
        ("u:p@host", "***@host"),
        ("u:p@ss@host/", "***@host/"),
        ("ü:p@host/", "***@host/"),
        # Hosts
        ("http://u:p@[::1]:8080/x", "http://***@[::1]:8080/x"),
        ("u:p@[fd00::1]:80/x", "***@[fd00::1]:80/x"),
        ("http://u:p@10.0.0.1:80", "http://***@10.0.0.1:80"),
        ("http://u:p@bücher.example/", "http://***@bücher.example/"),
        ("http://u:p@host:bad/x", "http://***@host:bad/x"),
        # A password that is no password by the standard: all up to the last `@` goes
        ("http://u:p#q@host/", "http://***@host/"),
        ("http://u:p/q@host/", "http://***@host/"),
        ("http://u:p?q@host/", "http://***@host/"),
        ("http://u:p\\q@host/", "http://***@host/"),
        ("http://u:p#q@host/@home", "http://***@home"),
        ("http://u:p%40host/", "http://***%40host/"),
        ("http://u:p q@host/", "http://***@host/"),
        ("see http://u:p q r@host/ there", "see http://***@host/ there"),
        # Several, and within others
        ("http://u:p@a.example,http://u:p@b.example", "http://***@a.example,http://***@b.example"),
        ("http://u:p@a/ http://b/ ftp://u:p@c/", "http://***@a/ http://b/ ftp://***@c/"),
        ("/x?next=http://u:p@host/", "/x?next=http://***@host/"),
        ("https://a/?next=http://u:p@host/&q=a@b", "https://a/?next=http://***@host/&q=a@b"),
        ("https://a/?n=http%3A%2F%2Fu%3Ap%40host%2F&q=a@b", "https://a/?n=http%3A%2F%2F***%40host%2F&q=a@b"),
        ("https://a/?n=http:%2F%2Fu:p%40host%2F", "https://a/?n=http:%2F%2F***%40host%2F"),
        ("http://%2Fu:p@host/", "http://***@host/"),
        ("https://a/?n=http%253a%252f%252fu%253ap%2540host", "https://a/?n=http%253a%252f%252f***%2540host"),
        ("https://archive.example/web/2020/http://u:p@host/", "https://archive.example/web/2020/http://***@host/"),
        # In sentences, JSON, HTML, Python
        ("cannot reach 'http://u:p@host/'.", "cannot reach 'http://***@host/'."),
        ("(http://u:p@host/)", "(http://***@host/)"),
        ("<http://u:p@host>", "<http://***@host>"),
        ("URL('http://u:p@host'), a@b.example", "URL('http://***@host'), a@b.example"),
        ('{"a":"http://u:p@host","b":"x@y.example"}', '{"a":"http://***@host","b":"x@y.example"}'),
        ('{"proxy":"u:p@host:80","b":"x@y.example"}', '{"proxy":"***@host:80","b":"x@y.example"}'),
        ('<a href="http://u:p@host/">x@y.example</a>', '<a href="http://***@host/">x@y.example</a>'),
        ("proxy=u:p@host:80", "proxy=***@host:80"),
    ],
)
def test_user_and_password_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked
    assert mask(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "a@b.example",
        "mailto:a@b.example",
        "E-Mail:a@b.example,c@d.example",
        "通讯作者:a@b.example",
        "acct:a@b.example",
        "git@host.example:a/b.git",
        "https://host/@user/",
        "https://host/a//b@c",
        "https://host/a:b@c/",
        "https://host?x=y@z",
        "https://host#a@b",
        "https://host:8080/@user",
        "http://[::1]:80/@user",
        "http://host.example, or a@b.example",
        "(see http://host.example),a@b.example",
        '{"a":"http://host","b":"x@y.example"}',
        "{'a': 'http://host', 'b': 'x@y.example'}",
        '{"email":"a@b.example"}',
        "{http:{user:'x@y.example'}}",
        "10.1000/x:y@z",
        "doi:10.1000/x@y",
        "https://doi.org/10.1000/x(1)2:a@b",
        "urn:x:y@z",
        "pkg:npm/left-pad@1.0.0",
        "image:tag@sha256:0123",
        "C:\\pictures\\logo@2x.png",
        "c:/pictures/logo@2x.png",
        "file:///home/@me/x",
        "/@user/x",
        "./a:b@c",
        "?q=a:b@c",
        "via:@user",
        "news:a@b.example",
        "at 10:30 @ the hall",
    ],
)
def test_what_holds_no_password_stays(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize("delimiter", RFC_3986 + WHATWG)
@pytest.mark.parametrize("spelling", ["raw", "encoded"])
@pytest.mark.parametrize(
    "form", ["http://{}@host.example/", "FTP://{}@host.example", "//{}@[::1]:80/x", "{}@host.example:80/x"]
)
@pytest.mark.parametrize(
    "context", ["{}", "see {} there", "'{}'", '"{}"', "({})", "<{}>", "/x?next={}", "not a URL: {!r}", "json"]
)
def test_no_delimiter_in_a_password_shows_it(delimiter: str, spelling: str, form: str, context: str) -> None:
    if form.startswith("{}") and (delimiter in " \t" or context == "/x?next={}"):
        return  # without a scheme, these are texts of several words, or of a path
    inside = delimiter if spelling == "raw" else quote(delimiter, safe="")
    url = form.format(f"user:{SECRET}{inside}{SECRET}")
    text = json.dumps({"url": url, "n": 1}) if context == "json" else context.format(url)
    assert SECRET not in mask(text)
    assert SECRET not in mask_url(url)


@pytest.mark.parametrize("delimiter", RFC_3986 + WHATWG + "\n\r")
def test_what_is_meant_as_one_url_is_masked_whatever_stands_in_it(delimiter: str) -> None:
    for password in (f"{SECRET}{delimiter}1{delimiter}2", f"{delimiter}{SECRET}", f"{SECRET}{delimiter}"):
        assert mask_url(f"http://user:{password}@host/x") == "http://***@host/x"
    if delimiter not in "/?#\\":  # these end the host, and the rest is a path
        assert mask_url(f"http://us{delimiter}er:{SECRET}@host/x") == "http://***@host/x"


def test_a_password_is_masked_before_the_text_is_cut() -> None:
    long = "http://user:" + SECRET * 40 + "@host/"
    assert mask(long)[:20] == "http://***@host/"


_PARTS = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=20)


@given(
    _PARTS,
    _PARTS,
    st.sampled_from(["http", "https", "ftp", "ws", "ssh", "postgres"]),
    st.sampled_from(["", "/@x", "?a@b"]),
)
def test_what_a_browser_takes_for_a_password_is_masked_and_the_rest_stays(
    user: str, password: str, scheme: str, rest: str
) -> None:
    url = ada_url.URL(f"{scheme}://host.example{rest}")
    url.username, url.password = user, password
    shown = ada_url.URL(f"{scheme}://host.example{rest}").href.replace("://", "://***@", 1)
    assert mask(str(url.href)) == mask_url(str(url.href)) == mask(shown) == shown


@given(_PARTS, st.sampled_from(["http://{}@host.example/x", "see 'http://{}@host.example/x'", "//{}@host.example/x"]))
def test_no_password_without_blanks_is_shown(password: str, form: str) -> None:
    assert SECRET not in mask(form.format(f"user:{SECRET}x{password}"))
    url = f"http://user:x{password}{SECRET}@host.example/x"
    assume(not (ada_url.check_url(url) and ada_url.URL(url).hostname != "host.example"))  # `@0?`: the rest is a query
    assert SECRET not in mask_url(url)


@pytest.mark.parametrize("password", ["@?", "@#1", "@/", "@%?", "@ ?"])
def test_where_no_host_follows_the_first_at_sign_all_up_to_the_last_is_masked(password: str) -> None:
    assert mask_url(f"http://user:x{password}{SECRET}@host.example/x") == "http://***@host.example/x"


_FRAGMENTS = st.sampled_from(
    [
        "http",
        "//",
        ":",
        "@",
        "/",
        "%40",
        "%3A%2F%2F",
        "%2540",
        "'",
        '"',
        "<",
        "[",
        "]",
        "(",
        ")",
        " ",
        "a",
        "b.example",
        "\\",
        "?",
        "#",
    ]
)


@given(st.lists(_FRAGMENTS, max_size=30).map("".join) | st.text(string.printable.replace("*", ""), max_size=60))
def test_masking_takes_parts_out_and_changes_nothing_else(text: str) -> None:
    for function in (mask, mask_url):
        position = 0
        for piece in function(text).split("***"):
            position = text.index(piece, position) + len(piece)
        if "@" not in text and "40" not in text:
            assert function(text) == text
