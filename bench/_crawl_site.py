"""The loopback site that crawlers are measured on: nginx on 20 addresses, over HTTP and TLS, with pages that hang.

Linux answers on all of 127.0.0.0/8; elsewhere the addresses must be added first (macOS: `ifconfig lo0 alias 127.0.0.2`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

HOSTS = tuple(f"127.0.0.{number}" for number in range(1, 21))
BODIES = 100
"""Distinct pages and PDFs on disk. Every URL is its own; the last two digits of its number pick the body."""
PAGE_BYTES, PDF_BYTES = 30_000, 200_000
REDIRECTED = 5
"""One row in so many begins at a redirect."""
HANG_SECONDS = 20.0
SCHEMES = ("http", "https", "https-new")
"""Plain, TLS that keeps connections, TLS whose server closes each connection after one answer."""

_TAGS = ("title", "journal_title", "publication_date", "volume", "issue", "firstpage", "lastpage", "doi", "issn")
_WORDS = (
    "result",
    "method",
    "sample",
    "figure",
    "model",
    "effect",
    "study",
    "rate",
    "protein",
    "cell",
    "group",
    "data",
)


class NoSite(Exception):
    """The site could not be served; the message says what to do."""


@dataclass(frozen=True)
class Site:
    """A site that is being served."""

    ports: dict[str, int]
    certificate: pathlib.Path
    """Of the authority that the TLS servers' certificates come from."""

    def urls(self, scheme: str, rows: int, *, hang_every: int = 0) -> list[str]:
        """So many rows' URLs, hosts in turn.

        :param hang_every: one page in so many answers after HANG_SECONDS
        """
        start = f"{scheme.partition('-')[0]}://{{}}:{self.ports[scheme]}"
        return [start.format(HOSTS[n % len(HOSTS)]) + _path(n, hang_every) for n in range(rows)]


def _path(number: int, hang_every: int) -> str:
    name = f"{number:06d}"
    if hang_every and number % hang_every == hang_every // 2:
        return f"/hang/{name}/view"
    return f"/go/{name}" if number % REDIRECTED == 0 else f"/a/{name}/view"


@contextlib.contextmanager
def served(folder: pathlib.Path, make_certificates: Callable[[pathlib.Path, Sequence[str]], None]) -> Iterator[Site]:
    """Serve the site while the block lasts.

    :param make_certificates: writes `server.key`, `server.pem` and the authority's `client.pem` for addresses
    :raises NoSite: without nginx, or when it does not start
    """
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if nginx is None:
        raise NoSite("nginx is not installed; apt-get install nginx-light, dnf install nginx or brew install nginx")
    _write_bodies(folder)
    make_certificates(folder, HOSTS)
    ports = dict(zip(SCHEMES, _free_ports(len(SCHEMES)), strict=True))
    config = folder / "nginx.conf"
    config.write_text(_config(folder, ports), "utf-8")
    with _hanging_server(folder):
        process = subprocess.Popen([nginx, "-e", str(folder / "error.log"), "-c", str(config), "-p", str(folder)])
        try:
            _wait_for(process, ports["http"], folder)
            yield Site(ports, folder / "client.pem")
        finally:
            process.send_signal(signal.SIGQUIT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


def _write_bodies(folder: pathlib.Path) -> None:
    chance = random.Random(9309)
    for kind in ("pages", "files"):
        (folder / kind).mkdir(exist_ok=True)
    for number in range(BODIES):
        (folder / "pages" / f"{number:02d}.html").write_text(_page(chance, number), "utf-8")
        body = chance.randbytes(PDF_BYTES + chance.randrange(-10_000, 10_000))
        head = b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<< /Type /Catalog >>\nendobj\n"
        tail = b"\ntrailer\n<< /Root 1 0 R >>\nstartxref\n9\n%%EOF\n"
        (folder / "files" / f"{number:02d}.pdf").write_bytes(head + body + tail)


def _page(chance: random.Random, number: int) -> str:
    """A landing page as publishers have them: metadata, navigation, an abstract, references. The link is relative, so
    that one page on disk leads each of its URLs to a PDF of its own."""

    def words(count: int) -> str:
        return " ".join(chance.choices(_WORDS, k=count))

    metas = [f'<meta name="citation_{tag}" content="{words(4)} {number}">' for tag in _TAGS]
    metas += [f'<meta name="citation_author" content="{words(2)}">' for _ in range(6)]
    metas += [f'<meta property="og:{tag}" content="{words(8)}">' for tag in ("title", "description", "site_name")]
    metas.append('<meta name="citation_pdf_url" content="full.pdf">')
    links = [f'<link rel="stylesheet" href="/static/{words(1)}-{n}.css">' for n in range(6)]
    menu = [f'<li><a class="nav-link" href="/journal/{words(1)}/{n}">{words(2)}</a></li>' for n in range(60)]
    head = "\n".join(["<!doctype html><html><head><meta charset=utf-8>", f"<title>{words(9)}</title>", *metas, *links])
    body = [f"</head><body><nav><ul>{''.join(menu)}</ul></nav><main><h1>{words(9)}</h1>"]
    size = len(head) + len(body[0])
    while size < PAGE_BYTES:
        body.append(f"<p>{words(60)} <sup><a href='#r{len(body)}'>{len(body)}</a></sup></p>")
        size += len(body[-1])
    return head + "\n".join(body) + "</main></body></html>"


def _config(folder: pathlib.Path, ports: dict[str, int]) -> str:
    user = "user root;" if os.geteuid() == 0 else ""
    common = f"""
        location ~ ^/(?:a|hang)/\\d*(\\d\\d)/full\\.pdf$ {{ default_type application/pdf; alias {folder}/files/$1.pdf; }}
        location ~ ^/a/\\d*(\\d\\d)/view$ {{ default_type text/html; alias {folder}/pages/$1.html; }}
        location ~ ^/go/(\\d+)$ {{ return 302 /a/$1/view; }}
        location /hang/ {{ proxy_pass http://unix:{folder}/hang.sock; }}
        absolute_redirect off;"""
    tls = f"ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.key;"
    return f"""{user} daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; open_file_cache max=1000; types {{ }}
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ {_listen(ports["http"])} {common} }}
    server {{ {_listen(ports["https"], " ssl")} {tls} {common} }}
    server {{ {_listen(ports["https-new"], " ssl")} {tls} keepalive_timeout 0; {common} }}
}}
"""


def _listen(port: int, more: str = "") -> str:
    return " ".join(f"listen {host}:{port}{more} backlog=4096;" for host in HOSTS)


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind((HOSTS[0], 0))
        return [each.getsockname()[1] for each in sockets]


def _wait_for(process: subprocess.Popen[bytes], port: int, folder: pathlib.Path) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection((HOSTS[-1], port), timeout=1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    log = folder / "error.log"
    raise NoSite(f"nginx does not answer: {log.read_text('utf-8')[-500:] if log.exists() else 'it said nothing'}")


# ---- pages that hang -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _hanging_server(folder: pathlib.Path) -> Iterator[None]:
    """Behind nginx: every landing page comes, after HANG_SECONDS."""
    loop = asyncio.new_event_loop()
    pages = [(folder / "pages" / f"{number:02d}.html").read_bytes() for number in range(BODIES)]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(HANG_SECONDS)
            page = pages[int(request.split(b"/")[2][-2:])]
            writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the crawler gave up on the page
        finally:
            writer.close()

    loop.run_until_complete(asyncio.start_unix_server(answer, folder / "hang.sock", backlog=4096))
    thread = threading.Thread(target=loop.run_forever, name="pages that hang", daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
