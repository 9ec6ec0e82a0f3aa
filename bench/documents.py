"""Reading PDFs against plain pypdfium2 in a loop: the text of all pages, and a picture of the first.

    python bench/documents.py [--quick] [--json] [--files FOLDER]

200 PDFs of 200 kB and twelve pages are made, or those of a folder are taken. Ours fetches each from a server on loopback,
checks and hashes it, and reads it in its pool, 32 at once. The peer opens the files from disk and does nothing else. Both
encode the picture as WebP. Each runs in a process of its own, in turn, three times; figures are medians. `pages_s` is for each
second of processor time, of all processes but the server. `blocked_ms` is how long one callback held the event loop at most,
by the clock; `blocked_cpu_ms` in processor time, which does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import _documents_papers

HERE = pathlib.Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 files instead of 200")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--files", type=pathlib.Path, help="a folder of PDFs to read instead")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.files or pathlib.Path(scratch)
        if chosen.files is None:
            _documents_papers.make_papers(folder, 100 if chosen.quick else 200)
        names = sorted(path.name for path in folder.glob("*.pdf"))
        size = statistics.mean((folder / name).stat().st_size for name in names)
        with serving(folder) as address:
            found = [
                (run("_documents_ours.py", address, json.dumps(names)), run("_documents_plain.py", str(folder)))
                for _ in range(3)
            ]
    keys = {
        "pages_s": round(statistics.median(ours["pages"] / ours["cpu"] for ours, _ in found)),
        "pypdfium2_pages_s": round(statistics.median(plain["pages"] / plain["cpu"] for _, plain in found)),
        "ratio": round(statistics.median(plain["cpu"] / ours["cpu"] for ours, plain in found), 2),
        "pages_clock_s": round(statistics.median(ours["pages"] / ours["seconds"] for ours, _ in found)),
        "blocked_ms": round(max(ours["blocked_ms"] for ours, _ in found), 1),
        "blocked_cpu_ms": round(max(ours["blocked_cpu_ms"] for ours, _ in found), 1),
    }
    print(f"{len(names):,} files of {size / 1000:,.0f} kB, {found[0][0]['pages']:,} pages")
    print(f"ours        {keys['pages_s']:>8,} pages/s of processor time, {keys['pages_clock_s']:,} by the clock")
    print(f"pypdfium2   {keys['pypdfium2_pages_s']:>8,} pages/s of processor time; ours is {keys['ratio']} of it")
    print(f"event loop  {keys['blocked_ms']:>8} ms blocked at most, {keys['blocked_cpu_ms']} ms of processor time")
    if chosen.json:
        print(json.dumps(keys))


@contextlib.contextmanager
def serving(folder: pathlib.Path) -> Iterator[str]:
    """A server of these files; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--protocol", "HTTP/1.1",
               "--directory", str(folder)]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while server.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def run(script: str, *words: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(HERE / script), *words], stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
