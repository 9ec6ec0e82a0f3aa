"""An enrichment's Config as a form, and back."""

from __future__ import annotations

import enum
from typing import Any, Literal

import pydantic
import pytest

from datasette_ingest.jobs.enrichment import ColumnField
from datasette_ingest.web import fields as form_fields
from datasette_ingest.web.fields import Widget


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Everything(pydantic.BaseModel):
    column: str = ColumnField(title="Column", description="Where it stands")
    other: str | None = ColumnField(None)
    name: str = "shouted"
    needed: str
    note: str | None = None
    prompt: str = pydantic.Field("", json_schema_extra={"widget": "textarea"})
    count: int = pydantic.Field(3, ge=1, le=9)
    share: float | None = None
    loud: bool = True
    mood: Literal["calm", "angry"] = "calm"
    size: Size = Size.SMALL
    maybe: Literal["a", "b"] | None = None
    sources: list[str] | None = None
    weights: dict[str, float] = pydantic.Field({"a": 1}, json_schema_extra={"advanced": True})


COLUMNS = ["id", "url"]


@pytest.fixture
def asked() -> dict[str, form_fields.Field]:
    return {field.key: field for field in form_fields.fields(Everything, COLUMNS, {"column": "url"})}


def test_every_type_has_its_widget(asked):
    assert {key: field.widget for key, field in asked.items()} == {
        "column": Widget.CHOICE,
        "other": Widget.CHOICE,
        "name": Widget.TEXT,
        "needed": Widget.TEXT,
        "note": Widget.TEXT,
        "prompt": Widget.LONG_TEXT,
        "count": Widget.INTEGER,
        "share": Widget.NUMBER,
        "loud": Widget.CHECKBOX,
        "mood": Widget.CHOICE,
        "size": Widget.CHOICE,
        "maybe": Widget.CHOICE,
        "sources": Widget.LINES,
        "weights": Widget.JSON,
    }


def test_a_column_is_a_choice_among_the_tables_columns(asked):
    assert asked["column"].choices == (("id", "id"), ("url", "url"))
    assert asked["column"].value == "url"
    assert asked["column"].label == "Column"
    assert asked["column"].help == "Where it stands"


def test_a_guess_that_is_no_choice_is_shown_as_such():
    field = form_fields.fields(Everything, COLUMNS, {"column": "gone"})[0]
    assert field.choices[0] == ("gone", "gone (not available)")


def test_defaults_required_bounds_and_folding_come_from_the_config(asked):
    assert asked["name"].value == "shouted"
    assert asked["count"].value == "3"
    assert asked["count"].bounds == "1 to 9"
    assert asked["loud"].checked
    assert asked["size"].value == "small"
    assert asked["weights"].value == '{"a": 1}'
    assert asked["weights"].advanced
    assert not asked["name"].advanced
    assert asked["needed"].required
    assert asked["note"].nullable
    assert not asked["name"].nullable


def test_a_config_without_a_json_schema_is_still_a_form():
    class Odd(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
        thing: Any = pydantic.Field(None, json_schema_extra=None)
        call: type[object] | None = None

    assert [field.key for field in form_fields.fields(Odd, [], {})] == ["thing", "call"]


def posted(**fields: str) -> dict[str, str]:
    return {form_fields.CONFIG_PREFIX + key: value for key, value in fields.items()}


def test_a_posted_form_reads_as_the_types_it_means(asked):
    form = posted(
        column="url", other="", name="out", needed="x", note="", prompt="", count="4", share="0.5", mood="angry",
        size="large", maybe="", sources="live\n\n wayback \n", weights='{"b": 2}',
    )  # fmt: skip
    config = form_fields.config_from(form, list(asked.values()))
    assert config == {
        "column": "url", "other": None, "name": "out", "needed": "x", "note": None, "prompt": "", "count": 4,
        "share": 0.5, "loud": False, "mood": "angry", "size": "large", "maybe": None, "sources": ["live", "wayback"],
        "weights": {"b": 2},
    }  # fmt: skip
    assert Everything.model_validate(config).size is Size.LARGE


def test_what_is_left_blank_and_required_is_left_out(asked):
    config = form_fields.config_from(posted(needed="  ", count=""), list(asked.values()))
    assert "needed" not in config
    assert "count" not in config


def test_what_does_not_read_as_its_type_stays_for_validation_to_name(asked):
    config = form_fields.config_from(posted(count="many", weights="{"), list(asked.values()))
    assert config["count"] == "many"
    assert config["weights"] == "{"


def test_typed_values_are_kept_with_their_errors(asked):
    form = posted(count="many", loud="1", needed="<i>")
    faults = ["count: not a number", "weights.a: not a number", "count: again", "The table is gone"]
    fields, rest = form_fields.with_errors(form_fields.as_posted(form, list(asked.values())), faults)
    kept = {field.key: field for field in fields}
    assert kept["count"].value == "many"
    assert kept["needed"].value == "<i>"
    assert kept["loud"].checked
    assert {field.key: field.error for field in fields if field.error} == {
        "count": "Not a number",
        "weights": "Not a number",
    }
    assert rest == ["The table is gone"]


def test_job_options_are_asked_for_with_the_enrichments_numbers_as_hint():
    by_key = {field.key: field for field in form_fields.option_fields({}, {"batch_size": 100})}
    assert by_key["batch_size"].help.endswith("Empty: 100")
    assert by_key["batch_size"].advanced
    assert (by_key["batch_size"].bounds, by_key["max_errors"].bounds) == ("At least 1", "")
    assert "Empty" not in by_key["max_errors"].help
    assert list(by_key) == ["batch_size", "max_open_batches", "max_errors", "budget_100ths_cent"]


class Rarer(pydantic.BaseModel):
    key: pydantic.SecretStr | None = None
    word: str = pydantic.Field("", json_schema_extra={"widget": "password"})
    kinds: list[Literal["live", "wayback"]] | None = None
    sizes: list[Size] = [Size.LARGE]
    years: list[int] = [2019, 2020]
    share: float = pydantic.Field(0.5, gt=0, lt=1)
    count: int = pydantic.Field(3, ge=1, le=9)
    most: int = pydantic.Field(3, le=9)
    age: int = pydantic.Field(3, ge=0)
    weights: dict[str, float] = {}


@pytest.fixture
def rarer() -> dict[str, form_fields.Field]:
    return {field.key: field for field in form_fields.fields(Rarer, [], {"key": "s3cret", "word": "s3cret"})}


def test_lists_of_choices_are_checkboxes_and_lists_of_numbers_are_lines(rarer):
    assert [rarer[key].widget for key in ("kinds", "sizes", "years")] == [Widget.CHOICES, Widget.CHOICES, Widget.LINES]
    assert rarer["kinds"].choices == (("live", "live"), ("wayback", "wayback"))
    assert rarer["sizes"].chosen == ("large",)
    assert rarer["years"].value == "2019\n2020"
    form = {"config.kinds.wayback": "1", "config.years": "1999\n2000"}
    config = form_fields.config_from(form, list(rarer.values()))
    assert (config["kinds"], config["sizes"]) == (["wayback"], [])
    assert Rarer.model_validate(config).years == [1999, 2000]
    assert form_fields.config_from({}, list(rarer.values()))["kinds"] is None
    kept = {field.key: field for field in form_fields.as_posted(form, list(rarer.values()))}
    assert kept["kinds"].chosen == ("wayback",)


def test_a_secret_is_taken_and_never_shown(rarer):
    form = posted(key="t0p", word="t0p")
    for fields in (rarer, {field.key: field for field in form_fields.as_posted(form, list(rarer.values()))}):
        for key in ("key", "word"):
            assert (fields[key].widget, fields[key].value) == (Widget.PASSWORD, "")
    assert form_fields.config_from(form, list(rarer.values()))["key"] == "t0p"


def test_the_hint_says_what_a_number_may_be_and_how_a_list_is_written(rarer):
    assert {key: rarer[key].hint for key in ("share", "count", "most", "age", "years", "weights")} == {
        "share": "More than 0, less than 1",
        "count": "1 to 9",
        "most": "At most 9",
        "age": "",
        "years": "One a line",
        "weights": "As JSON",
    }
