"""The statuses as the outcome words of jobs: what each means, and what a person can do."""

from __future__ import annotations

from ...jobs.model import Word
from ..advice import Case, advice, cases, meaning
from ..errors import NOT_TRIED, STATUSES, SUCCESS


def _where(case: Case) -> tuple[tuple[str, str], ...]:
    """The case as conditions on the column of the HTTP status."""
    if case.is_range:
        return ("gte", str(case.codes[0])), ("lte", str(case.codes[-1]))
    return (("in", ",".join(map(str, case.codes))),) if case.codes else ()


WORDS = {status: Word(meaning(status), advice(status)) for status in (SUCCESS, *STATUSES, NOT_TRIED)} | {
    name: Word(case.meaning, case.advice, case.label, _where(case)) for name, case in cases().items()
}
