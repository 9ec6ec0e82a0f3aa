"""The sample site: typical answers to a crawler, from one small server on loopback. Standard library only."""

from __future__ import annotations

import contextlib
import http.server
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

PAGES = pathlib.Path(__file__).with_name("pages")
SLOW_SECONDS = 2.0


@dataclass(frozen=True)
class Reply:
    """The answer at one path."""

    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True)
class SampleRow:
    """A row of the demo's table. `path` is a path of the site, a DOI, or '' for an empty cell."""

    title: str
    path: str
    wanted: str = "pdf"


ROWS = (
    SampleRow("A direct link to a PDF", "/files/herons.pdf"),
    SampleRow("A landing page that names its PDF", "/articles/tides"),
    SampleRow("A link that was moved, twice", "/old/paper?id=7"),
    SampleRow("A paper behind a login", "/articles/salt"),
    SampleRow("A page that is not there any more", "/articles/lost"),
    SampleRow("An article as JATS XML", "/xml/sparrows.xml", "xml"),
    SampleRow("An article as a web page", "/read/bread", "html"),
    SampleRow("A web page that says it is a PDF", "/files/report.pdf"),
    SampleRow("A host that takes its time", "/slow/survey.pdf"),
    SampleRow("A DOI instead of a URL", "doi:10.5555/demo.mosses"),
    SampleRow("An empty cell", ""),
)


def make_pdf(text: str) -> bytes:
    """A small valid PDF of one page that shows one line (ISO 32000-1, 7.5: header, objects, xref, trailer)."""
    shown = text.encode("ascii", "replace").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
    stream = b"BT /F1 18 Tf 72 720 Td (" + shown + b") Tj ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def _page(name: str, **more: object) -> Reply:
    return Reply((PAGES / name).read_bytes(), **more)  # type: ignore[arg-type]


def _pdf(text: str, **more: object) -> Reply:
    return Reply(make_pdf(text), "application/pdf", **more)  # type: ignore[arg-type]


def _moved(location: str) -> Reply:
    return Reply(status=302, headers={"Location": location})


def replies() -> dict[str, Reply]:
    """Path -> reply. The DOI resolver lives below /doi/."""
    return {
        "/files/herons.pdf": _pdf("Herons of the lower river"),
        "/articles/tides": _page("landing.html"),
        "/files/tides.pdf": _pdf("Tides in small harbours"),
        "/old/paper?id=7": _moved("/new/paper/7"),
        "/new/paper/7": _moved("/files/lichens.pdf"),
        "/files/lichens.pdf": _pdf("Lichens on slate roofs"),
        "/articles/salt": _page("walled.html"),
        "/members/salt.pdf": _moved("/login"),
        "/login": _page("login.html"),
        "/xml/sparrows.xml": _page("article.xml", content_type="application/xml"),
        "/read/bread": _page("article.html"),
        "/files/report.pdf": _page("not-a-pdf.html", content_type="application/pdf"),
        "/slow/survey.pdf": _pdf("A survey of slow things", delay=SLOW_SECONDS),
        "/doi/10.5555/demo.mosses": _moved("/keys/mosses"),
        "/keys/mosses": _page("doi.html"),
        "/keys/mosses/download": _pdf("A key to the mosses of old walls"),
    }


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that disconnects; print everything else as usual."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextlib.contextmanager
def serving(address: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The site's address, such as `http://127.0.0.1:40123`, while the block lasts."""
    answers, missing = replies(), _page("missing.html", status=404)
    with answering(lambda host, path: answers.get(path, missing), address, port) as base:
        yield base


@contextlib.contextmanager
def answering(answer: Callable[[str, str], Reply], address: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The address of a server that gives `answer(host, path)`, while the block lasts."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            reply = answer(self.headers["Host"] or "", self.path)
            time.sleep(reply.delay)
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing: the command that serves has its own output."""

    server = _Server((address, port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://{address}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
