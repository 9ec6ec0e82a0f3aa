"""What to do about a status."""

from __future__ import annotations

import pytest

from datasette_ingest.ingest.advice import ADVICE, advice, case_of, cases, meaning
from datasette_ingest.ingest.errors import STATUSES, SUCCESS


@pytest.mark.parametrize("status", STATUSES)
def test_each_status_of_a_miss_has_a_meaning_and_something_to_do(status: str) -> None:
    assert advice(status).endswith(".") and meaning(status).endswith(".")


def test_a_hit_and_a_foreign_status_need_nothing() -> None:
    assert (advice(SUCCESS), advice("petabox-error"), meaning("petabox-error")) == ("", "", "")


@pytest.mark.parametrize(
    ("status", "code", "case"),
    [
        ("terminal-bad-status", 404, "terminal-bad-status:404"),
        ("terminal-bad-status", 410, "terminal-bad-status:404"),
        ("terminal-bad-status", 401, "terminal-bad-status:403"),
        ("terminal-bad-status", 403, "terminal-bad-status:403"),
        ("terminal-bad-status", 429, "terminal-bad-status:429"),
        ("terminal-bad-status", 500, "terminal-bad-status:5xx"),
        ("terminal-bad-status", 599, "terminal-bad-status:5xx"),
        ("terminal-bad-status", 418, "terminal-bad-status:other"),
        ("terminal-bad-status", 999, "terminal-bad-status:other"),
        ("terminal-bad-status", None, "terminal-bad-status"),
        ("platform-http-error", 502, "platform-http-error:5xx"),
        ("blocked-wall", 404, "blocked-wall"),
        ("success", 200, "success"),
        ("petabox-error", 404, "petabox-error"),
    ],
)
def test_a_bad_http_status_is_told_apart_by_its_code(status: str, code: int | None, case: str) -> None:
    assert case_of(status, code) == case
    assert case == status or cases()[case].advice.endswith(".")


def test_no_advice_is_for_a_status_that_there_is_not() -> None:
    assert set(ADVICE) <= {SUCCESS, *STATUSES}
