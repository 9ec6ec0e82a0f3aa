"""Which POSTs may go without a CSRF token on the 0.65 line."""

from __future__ import annotations

import pytest

from datasette_ingest.web import routes


class Bare:
    def __init__(self, base_url: str = "/") -> None:
        self.base_url = base_url

    def setting(self, name: str) -> str:
        return self.base_url


def scope(path: str, content_type: str = "application/json", method: str = "POST") -> dict:
    headers = [(b"content-type", content_type.encode())]
    return {"type": "http", "method": method, "path": path, "headers": headers}


@pytest.mark.parametrize(
    "path",
    [
        "/-/ingest-jobs/words",
        "/-/ingest-jobs/a~2Fb",
        *(f"/-/ingest-jobs/words/1/{verb}" for verb in ("pause", "retry")),
    ],
)
def test_json_posts_to_our_addresses_need_no_token(path):
    assert routes.skips_csrf(Bare(), scope(path)) is True
    assert routes.skips_csrf(Bare(), scope(path, "application/json; charset=utf-8")) is True
    assert routes.skips_csrf(Bare("/prefix/"), scope(f"/prefix{path}")) is True


def test_the_path_is_judged_as_it_was_sent_for_so_it_is_routed():
    decoded = scope("/-/ingest-jobs/words")
    assert routes.skips_csrf(Bare(), {**decoded, "raw_path": b"/-/ingest-jobs/words?x=1"}) is True
    assert routes.skips_csrf(Bare(), {**decoded, "raw_path": b"/-%2Fingest-jobs/words"}) is None


@pytest.mark.parametrize(
    "given",
    [
        scope("/-/ingest-jobs/words", "application/x-www-form-urlencoded"),
        scope("/-/ingest-jobs/words", "text/plain"),
        scope("/-/ingest-jobs/words", "text/plain; application/json"),
        scope("/-/ingest-jobs/words", method="GET"),
        scope("/-/ingest-jobs/words/1/errors"),
        scope("/-/ingest/words/words/shout"),
        scope("/words/words"),
        scope("/x/-/ingest-jobs/words"),
        {"type": "lifespan"},
    ],
)
def test_all_else_is_left_to_datasette(given):
    assert routes.skips_csrf(Bare(), given) is None
