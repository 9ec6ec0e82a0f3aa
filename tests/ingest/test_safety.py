"""No connection leaves for an address that is not public and was not allowed: a spy watches the sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import trustme

from datasette_ingest.ingest.model import IngestRequest

from .origin import Origin, html, pdf, redirect

FORMS = [
    "http://127.0.0.1:{port}/", "http://127.1:{port}/", "http://2130706433:{port}/", "http://0x7f000001:{port}/",
    "http://0177.0.0.1:{port}/", "http://0:{port}/", "http://[::1]:{port}/", "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/", "http://[::127.0.0.1]:{port}/", "http://[64:ff9b::7f00:1]:{port}/",
    "http://[2002:7f00:1::]:{port}/", "http://１２７.０.０.１:{port}/", "http://127.0.0.1.:{port}/",
    "http://localhost:{port}/", "http://sub.localhost:{port}/", "http://loopback.example:{port}/",
    "http://mixed.example:{port}/", "http://169.254.169.254/latest/", "http://[fe80::1]:{port}/", "http://[fec0::1]/",
    "http://10.0.0.1/", "http://100.64.0.1/", "http://224.0.0.1/", "http://[ff02::1]/",
]  # fmt: skip
NAMES = {
    "loopback.example": ["127.0.0.1"],
    "localhost": ["127.0.0.1", "::1"],
    "sub.localhost": ["::1"],
    "mixed.example": ["10.0.0.1", "::ffff:127.0.0.1", "fd00::1"],
}


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every address that a socket was told to connect to."""
    seen: list[Any] = []
    for method in ("connect", "connect_ex"):
        original = getattr(socket.socket, method)

        def spy(self: socket.socket, address: Any, original: Any = original) -> Any:
            seen.append(address)
            return original(self, address)

        monkeypatch.setattr(socket.socket, method, spy)
    yield seen


async def resolve(host: str, port: int) -> list[str]:
    return NAMES.get(host.rstrip("."), [])


@pytest.mark.parametrize("form", FORMS)
async def test_a_cell_never_reaches_a_private_address(make_crawler: Any, connected: list[Any], form: str) -> None:
    crawler = make_crawler(resolve=resolve, allow_networks=(), robots="obey")
    result = await crawler.ingest(IngestRequest("pdf", form.format(port=80)))
    assert result.status == "forbidden-address"
    assert connected == []


@pytest.mark.parametrize("form", FORMS)
async def test_neither_do_redirects_links_and_robots_files(make_crawler: Any, connected: list[Any], form: str) -> None:
    async with Origin({"/p.pdf": pdf()}) as inner, Origin({}, host="127.0.0.3") as site:
        target = form.format(port=inner.port) + "p.pdf"
        site.handlers.update(
            {
                "/redirect": redirect(target),
                "/link": html(f'<meta name="citation_pdf_url" content="{target}">'),
                "/refresh": html(f'<meta http-equiv="refresh" content="0;url={target}">'),
            }
        )
        crawler = make_crawler(resolve=resolve, allow_networks=(site.network,))
        for path in ("/redirect", "/link", "/refresh"):
            assert (await crawler.ingest(IngestRequest("pdf", site.url(path)))).status == "forbidden-address"
        site.handlers["/robots.txt"] = redirect(target)
        obedient = make_crawler(resolve=resolve, allow_networks=(site.network,), robots="obey")
        assert (await obedient.ingest(IngestRequest("pdf", site.url("/redirect")))).status == "forbidden-address"
    assert {address[:2] for address in connected} == {(site.host, site.port)}
    assert inner.connections == 0


async def test_the_address_that_was_checked_is_the_one_connected_to(make_crawler: Any, connected: list[Any]) -> None:
    """A name server that answers differently the second time gets nowhere."""
    async with Origin({"/p.pdf": pdf()}, host="127.0.0.4") as site:
        answers = [["127.0.0.4"], ["127.0.0.1"]]

        async def rebinding(host: str, port: int) -> list[str]:
            return answers.pop(0) if len(answers) > 1 else answers[0]

        crawler = make_crawler(resolve=rebinding, allow_networks=("127.0.0.4/32",))
        result = await crawler.ingest(IngestRequest("pdf", f"http://rebind.example:{site.port}/p.pdf"))
    assert result.hit
    assert connected == [("127.0.0.4", site.port)]
    assert site.requests[0].headers["host"] == f"rebind.example:{site.port}"


async def test_of_several_addresses_only_the_allowed_are_tried(make_crawler: Any, connected: list[Any]) -> None:
    async with Origin({"/p.pdf": pdf()}, host="127.0.0.4") as site:

        async def mixed(host: str, port: int) -> list[str]:
            return ["10.0.0.1", "::1", "127.0.0.4"]

        crawler = make_crawler(resolve=mixed, allow_networks=("127.0.0.4/32",))
        assert (await crawler.ingest(IngestRequest("pdf", f"http://mixed.example:{site.port}/p.pdf"))).hit
    assert {address[0] for address in connected} == {"127.0.0.4"}


async def test_a_dead_address_does_not_hide_a_living_one(make_crawler: Any) -> None:
    async with Origin({"/p.pdf": pdf()}, host="127.0.0.4") as site:

        async def both(host: str, port: int) -> list[str]:
            return ["127.0.0.5", "127.0.0.4"]

        crawler = make_crawler(resolve=both)
        assert (await crawler.ingest(IngestRequest("pdf", f"http://two.example:{site.port}/p.pdf"))).hit


async def test_environment_variables_do_not_reroute_requests(
    make_crawler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1/")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1/")
    async with Origin({"/p.pdf": pdf()}) as site:
        assert (await make_crawler().ingest(IngestRequest("pdf", site.url("/p.pdf")))).hit


# TLS


def server_context(authority: trustme.CA, *names: str, **options: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names, **options).configure_cert(context)
    return context


@pytest.fixture
def authority(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """An authority that this process trusts."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return ca


def named(host: str) -> Any:
    async def resolve_to_loopback(name: str, port: int) -> list[str]:
        return [host]

    return resolve_to_loopback


async def test_a_trusted_certificate_for_the_right_name_makes_a_hit(make_crawler: Any, authority: trustme.CA) -> None:
    tls = server_context(authority, "good.example")
    async with Origin({"/p.pdf": pdf()}, tls=tls) as site:
        crawler = make_crawler(resolve=named("127.0.0.1"))
        for n in range(3):
            result = await crawler.ingest(IngestRequest("pdf", f"https://good.example:{site.port}/p.pdf?{n}"))
            assert result.status == "success"
    assert site.connections == 1


@pytest.mark.parametrize("fault", ["other name", "unknown authority"])
async def test_a_certificate_that_proves_nothing_is_a_tls_error(
    make_crawler: Any, authority: trustme.CA, fault: str
) -> None:
    issuer = trustme.CA() if fault == "unknown authority" else authority
    tls = server_context(issuer, "other.example" if fault == "other name" else "good.example")
    async with Origin({"/p.pdf": pdf()}, tls=tls) as site:
        crawler = make_crawler(resolve=named("127.0.0.1"))
        result = await crawler.ingest(IngestRequest("pdf", f"https://good.example:{site.port}/p.pdf"))
    assert (result.status, result.hit) == ("tls-error", False)
    assert "good.example" in result.error_message


async def test_a_server_that_speaks_no_tls_is_a_tls_error(make_crawler: Any) -> None:
    async def answer_in_clear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer_in_clear, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        result = await make_crawler().ingest(IngestRequest("pdf", f"https://127.0.0.1:{port}/p.pdf"))
    assert result.status == "tls-error"


async def test_a_listed_host_is_not_verified_and_others_still_are(make_crawler: Any, authority: trustme.CA) -> None:
    tls = server_context(trustme.CA(), "bad.example", "worse.example")
    async with Origin({"/p.pdf": pdf()}, tls=tls) as site:
        crawler = make_crawler(resolve=named("127.0.0.1"), insecure_hosts=("BAD.example",))
        assert (await crawler.ingest(IngestRequest("pdf", f"https://bad.example:{site.port}/p.pdf"))).hit
        other = await crawler.ingest(IngestRequest("pdf", f"https://worse.example:{site.port}/p.pdf"))
    assert other.status == "tls-error"
