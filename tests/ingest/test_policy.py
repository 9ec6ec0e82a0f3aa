"""What is refused before anything is sent."""

from __future__ import annotations

import ipaddress

import pytest

from datasette_ingest.ingest.policy import Policy, is_public, is_wall, parse_network

NOT_PUBLIC = [
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "192.0.2.1", "198.18.0.1", "192.0.0.8", "192.88.99.1",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00::1", "fec0::1", "ff02::1", "2001:db8::1", "100::1",
    "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::7f00:1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
    "2002:7f00:1::", "2002:a00:1::1", "2001:0:4136:e378:8000:63bf:f5ff:fffe",
]  # fmt: skip


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_refused_in_whatever_form(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address.partition("%")[0]))
    refusal = Policy().refuse_address(address, 80, href="http://h/")
    assert refusal is not None and refusal.status == "forbidden-address"


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1", "::ffff:8.8.8.8"]
)
def test_a_public_address_is_let_through(address: str) -> None:
    assert Policy().refuse_address(address, 443, href="https://h/") is None


def test_an_allowed_network_opens_its_addresses_and_only_the_named_port() -> None:
    policy = Policy(allow_networks=("10.1.0.0/16", "127.0.0.1:8080", "[fd00::/8]:443"))
    assert policy.refuse_address("10.1.2.3", 80, href="http://h/") is None
    assert policy.refuse_address("10.2.0.1", 80, href="http://h/") is not None
    assert policy.refuse_address("127.0.0.1", 8080, href="http://h/") is None
    assert policy.refuse_address("127.0.0.1", 8081, href="http://h/") is not None
    assert policy.refuse_address("fd00::5", 443, href="http://h/") is None
    assert policy.refuse_address("fd00::5", 80, href="http://h/") is not None
    assert policy.refuse_address("::ffff:10.1.2.3", 80, href="http://h/") is None


@pytest.mark.parametrize("text", ["", "10.0.0.0/33", "host", "10.0.0.1:0", "10.0.0.1:x", "[::1]:99999", "::1:80:x"])
def test_a_malformed_network_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError):
        Policy(allow_networks=(text,))


def test_networks_are_read_with_and_without_a_port() -> None:
    assert parse_network("::1") == (ipaddress.ip_network("::1/128"), None)
    assert parse_network("[::1]:80") == (ipaddress.ip_network("::1/128"), 80)
    assert parse_network("127.0.0.1:80") == (ipaddress.ip_network("127.0.0.1/32"), 80)


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("http://www.facebook.com/paper", "skip-url-blocklist"),
        ("http://example.org/skip-me/x.pdf", "skip-url-blocklist"),
        ("http://web.archive.org/web/2020/http://h/", None),
        ("http://pub.example/action/cookieAbsent", "blocked-cookie"),
        ("http://pub.example/a?cookieSet=1", "blocked-cookie"),
        ("http://notfacebook.com/paper", None),
        ("http://example.org/redirect?u=facebook.com", None),
        ("http://example.org/x?next=://localhost/", None),
    ],
)
def test_urls_are_refused_by_host_and_by_the_users_own_substrings(url: str, status: str | None) -> None:
    refusal = Policy(blocklist=("/skip-me/",)).refuse_url(url)
    assert (refusal.status if refusal else None) == status


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://pub.example/login", True),
        ("https://pub.example/user/login?next=/p.pdf", True),
        ("https://pub.example/Shibboleth.sso/Login", True),
        ("https://login.pub.example/", True),
        ("https://idp.pub.example/saml2/redirect", True),
        ("https://pub.example/showcaptcha.asp", True),
        ("https://pub.example/action/showLogin?uri=%2Fdoi%2F10.5555%2F1", True),
        ("https://repo.example/jspui/password-login", True),
        ("https://sso.pub.example/realms/x/protocol/openid-connect/auth?client_id=y", True),
        ("https://id.pub.example/oauth2/v2.0/authorize", True),
        ("https://pub.example/actions/showlogins-study.pdf", False),
        ("https://pub.example/login-rates-in-schools.pdf", False),
        ("https://pub.example/articles/captcha-solving-by-machines", False),
        ("https://pub.example/p.pdf?from=/login", False),
        ("https://authors.example/p.pdf", False),
    ],
)
def test_a_wall_is_known_by_a_whole_word_of_its_path(url: str, expected: bool) -> None:
    assert is_wall(url) is expected
