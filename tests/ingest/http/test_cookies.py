"""One row's cookies: kept where they belong, sent where they belong."""

from __future__ import annotations

import json

import pytest

from datasette_ingest.ingest.http.cookies import CookieJar


def jar_with(href: str, *lines: bytes) -> CookieJar:
    jar = CookieJar()
    jar.store(href, list(lines))
    return jar


@pytest.mark.parametrize(
    ("line", "asked", "sent"),
    [
        (b"a=1", "http://www.h.example/x", b"a=1"),
        (b"a=1", "http://h.example/x", None),
        (b"a=1", "http://sub.www.h.example/x", None),
        (b"a=1; Domain=h.example", "http://other.h.example/", b"a=1"),
        (b"a=1; Domain=.H.example", "http://h.example/", b"a=1"),
        (b"a=1; Domain=other.example", "http://other.example/", None),
        (b"a=1; Domain=example", "http://other.example/", None),
        (b"a=1; Path=/dir", "http://www.h.example/dir/x", b"a=1"),
        (b"a=1; Path=/dir", "http://www.h.example/directory", None),
        (b"a=1; Secure", "http://www.h.example/x", None),
        (b"a=1; Secure", "https://www.h.example/x", b"a=1"),
        (b"a=1; Max-Age=0", "http://www.h.example/x", None),
        (b"a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "http://www.h.example/x", None),
        (b"a=b=c; HttpOnly; SameSite=Lax", "http://www.h.example/x", b"a=b=c"),
        (b"no equals sign", "http://www.h.example/x", None),
        (b"=nameless", "http://www.h.example/x", None),
        (b"a=1\r\nX: injected", "http://www.h.example/x", None),
        (b"a=\xe9", "http://www.h.example/x", b"a=\xe9"),
    ],
)
def test_a_cookie_goes_where_its_attributes_say(line: bytes, asked: str, sent: bytes | None) -> None:
    assert jar_with("http://www.h.example/start", line).header(asked) == sent


@pytest.mark.parametrize(
    ("host", "domain", "stranger"),
    [
        ("a.example.co.uk", "co.uk", "b.example2.co.uk"),
        ("a.example.com", "com", "b.org.com"),
        ("mine.github.io", "github.io", "theirs.github.io"),
        ("mine.s3.amazonaws.com", "s3.amazonaws.com", "theirs.s3.amazonaws.com"),
        ("x.city2.kobe.jp", "city2.kobe.jp", "y.city2.kobe.jp"),  # a wildcard of the list
        ("x.xn--p1ai", "xn--p1ai", "y.xn--p1ai"),
        ("x.internal", "internal", "y.internal"),
        ("x.localhost", ".localhost.", "y.localhost"),
        ("10.0.0.1", "0.0.1", "9.0.0.1"),
        ("10.0.0.1", "1", "9.0.0.1"),
    ],
)
def test_a_cookie_for_a_domain_that_belongs_to_nobody_is_refused(host: str, domain: str, stranger: str) -> None:
    jar = jar_with(f"http://{host}/", f"a=1; Domain={domain}".encode())
    assert jar.header(f"http://{host}/") is None and jar.header(f"http://{stranger}/") is None


@pytest.mark.parametrize("host", ["github.io", "localhost", "co.uk", "10.0.0.1", "[::1]"])
def test_such_a_host_keeps_its_own_cookies_to_itself(host: str) -> None:
    name = host.strip("[]")
    jar = jar_with(f"http://{host}/", f"a=1; Domain={name}".encode())
    assert jar.header(f"http://{host}/") == b"a=1"
    assert jar.header(f"http://under.{name}/" if ":" not in name else "http://[::2]/") is None


@pytest.mark.parametrize(
    ("host", "domain"), [("x.city.kobe.jp", "city.kobe.jp"), ("a.www.ck", "www.ck"), ("h.b.test", "b.test")]
)
def test_a_domain_that_somebody_has_may_share_its_cookies(host: str, domain: str) -> None:
    assert jar_with(f"http://{host}/", f"a=1; Domain={domain}".encode()).header(f"http://y.{domain}/") == b"a=1"


def test_an_address_is_no_domain_for_others() -> None:
    assert jar_with("http://10.0.0.1/", b"a=1; Domain=0.0.1").header("http://9.0.0.1/") is None


def test_a_later_cookie_of_the_same_name_replaces_the_earlier_and_can_take_it_back() -> None:
    jar = jar_with("http://h.example/", b"a=1", b"a=2", b"b=3")
    assert jar.header("http://h.example/") == b"a=2; b=3"
    jar.store("http://h.example/", [b"a=; Max-Age=-1"])
    assert jar.header("http://h.example/") == b"b=3"


def test_the_longest_path_comes_first() -> None:
    jar = jar_with("http://h.example/dir/x", b"a=1; Path=/", b"b=2; Path=/dir")
    assert jar.header("http://h.example/dir/y") == b"b=2; a=1"


def test_no_server_can_fill_the_memory() -> None:
    jar = jar_with("http://h.example/", *(b"c%d=1" % n for n in range(1000)))
    assert jar.header("http://h.example/").count(b"=") == 100
    assert jar_with("http://h.example/", b"a=" + b"x" * 10_000).header("http://h.example/") is None


def test_cookies_are_the_same_after_a_way_through_json() -> None:
    jar = jar_with("https://www.h.example/dir/x", b"a=\xe9; Path=/dir", b"b=2; Domain=h.example; Secure", b"a=1")
    copy = CookieJar()
    copy.add_json(json.loads(json.dumps(jar.to_json())))
    for asked in (
        "https://www.h.example/dir/y",
        "http://www.h.example/dir/y",
        "https://h.example/",
        "https://x.example/",
    ):
        assert copy.header(asked) == jar.header(asked)
    copy.store("https://www.h.example/dir/x", [b"a=; Max-Age=0; Path=/dir"])
    assert copy.header("http://www.h.example/dir/y") is None
