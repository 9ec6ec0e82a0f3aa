"""What to do about a status."""

from __future__ import annotations

import pytest

from datasette_ingest.ingest.advice import ADVICE, advice, meaning
from datasette_ingest.ingest.errors import STATUSES, SUCCESS


@pytest.mark.parametrize("status", STATUSES)
def test_each_status_of_a_miss_has_a_meaning_and_something_to_do(status: str) -> None:
    assert advice(status).endswith(".") and meaning(status).endswith(".")


def test_a_hit_and_a_foreign_status_need_nothing() -> None:
    assert (advice(SUCCESS), advice("petabox-error"), meaning("petabox-error")) == ("", "", "")


def test_no_advice_is_for_a_status_that_there_is_not() -> None:
    assert set(ADVICE) <= {SUCCESS, *STATUSES}
