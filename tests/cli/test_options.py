"""How what is typed becomes settings."""

from __future__ import annotations

import click
import pytest

from datasette_ingest.cli.options import for_the_job, parse_assignments, parse_pairs


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("text", "text"),
        ("12", 12),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ('["a", "b"]', ["a", "b"]),
        ('"12"', "12"),
        ("", ""),
        ("a=b", "a=b"),
        ("@env:NAME", {"$env": "NAME"}),
    ],
)
def test_a_value_is_json_if_it_parses_as_json_else_text(text: str, value: object) -> None:
    assert parse_pairs([("key", text)]) == {"key": value}
    assert parse_assignments([f"key={text}"]) == {"key": value}


def test_a_repeated_key_makes_a_list() -> None:
    assert parse_pairs([("a", "1"), ("b", "x"), ("a", "2"), ("a", "three")]) == {"a": [1, 2, "three"], "b": "x"}


@pytest.mark.parametrize("text", ["key", "=value", ""])
def test_an_assignment_without_key_or_sign_is_wrong_usage(text: str) -> None:
    with pytest.raises(click.UsageError, match="write it as key=value"):
        parse_assignments([text])


def test_a_permission_of_the_process_is_not_stored_with_a_job() -> None:
    permissions = ("allow_networks", "proxy", "insecure_hosts", "spn2_access_key", "spn2_secret_key")
    given = dict.fromkeys(permissions, "x") | {"timeout": 5, "max_age_days": 1, "run_jobs": False}
    assert for_the_job(given) == {"timeout": 5, "max_age_days": 1}
