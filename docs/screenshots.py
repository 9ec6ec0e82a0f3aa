"""The pictures of the README: the demonstration, run on this machine and looked at in Chromium.

    python docs/screenshots.py            # into docs/images/
    python docs/screenshots.py FOLDER

Needs Chromium and the package playwright. Asks nothing outside of this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

IMAGES = pathlib.Path(__file__).with_name("images")
DATABASE = "ingest-demo"
WIDTH = 1280
MARGIN = 10
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]


@dataclass(frozen=True)
class Picture:
    """A page of the demonstration, from its top to the end of one of its elements."""

    name: str
    path: str
    ends_with: str
    """CSS selector of that element."""


PICTURES = (
    Picture("job.png", f"/-/ingest-jobs/{DATABASE}/1", "#ingest-log"),
    Picture(
        "result.png",
        f"/{DATABASE}/papers?_nosuggest=1&_col=title&_col=wanted&_col=ingest_hit&_col=ingest_status"
        "&_col=ingest_terminal_url",
        "table.rows-and-columns",
    ),
)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Take the pictures of the README")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=IMAGES, help="where to put them")
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    with demonstration() as link:
        for path in take(link, folder):
            sys.stdout.write(f"{path} ({path.stat().st_size:,} bytes)\n")


@contextlib.contextmanager
def demonstration() -> Iterator[str]:
    """The link that signs in to a Datasette on the demo's finished job, served while the block lasts."""
    command = [sys.executable, "-m", "datasette", "ingest", "demo", f"{DATABASE}.db", "--serve", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        try:
            yield sign_in_link(server)
        finally:
            server.terminate()
            server.wait(timeout=30)
            server.stdout.close()


def sign_in_link(server: subprocess.Popen[str]) -> str:
    """What the demo prints last before it serves."""
    said = []
    for line in server.stdout:
        said.append(line)
        if re.fullmatch(r"http://\S+/-/auth-token\?token=\w+\n", line):
            return line.strip()
    raise SystemExit("The demo did not start:\n" + "".join(said))


def take(link: str, folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """The files of the pictures, one after the other."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(link)
        for picture in PICTURES:
            yield photograph(page, link, picture, folder)
        browser.close()


def photograph(page: Any, link: str, picture: Picture, folder: pathlib.Path) -> pathlib.Path:
    site = urlsplit(link)
    page.goto(f"{site.scheme}://{site.netloc}{picture.path}", wait_until="networkidle")
    shown = page.locator(picture.ends_with).bounding_box()
    path = folder / picture.name
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": round(shown["y"] + shown["height"]) + MARGIN}
    page.screenshot(path=path, full_page=True, clip=clip)
    return path


def chromium() -> str:
    """Where the system's Chromium is."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        raise SystemExit("Chromium is missing")
    return found


if __name__ == "__main__":
    main()
