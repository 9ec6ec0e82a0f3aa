"""The files of examples/fleet/ are what systemd and compose read, and their commands are ones that there are."""

from __future__ import annotations

import configparser
import shlex

import click
import pytest
import yaml

from datasette_ingest import settings
from datasette_ingest.cli import ingest

from .shown_pages import PROJECT

FOLDER = PROJECT / "examples" / "fleet"
UNITS = sorted(FOLDER.glob("*.service"))
GRACE_SECONDS = 10
"""How long a worker needs to hand its work back."""


def check_command(words: list[str], path: str) -> None:
    """That `datasette ingest …` takes these words. Files need not be there but for the settings at `path`."""
    assert words[0].endswith("datasette") and words[1:3] == ["ingest", "kafka"]
    kafka = ingest.commands["kafka"]
    assert isinstance(kafka, click.Group)
    command = kafka.commands[words[3]]
    for parameter in command.params:
        if isinstance(parameter.type, click.Path):
            parameter.type = click.Path()
    words = [str(FOLDER / "datasette.yaml") if word == path else word for word in words[4:]]
    command.make_context(command.name, words)  # a usage error otherwise


@pytest.fixture(autouse=True)
def _other_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `check_command` change the types of parameters for one test."""
    kafka = ingest.commands["kafka"]
    assert isinstance(kafka, click.Group)
    for command in kafka.commands.values():
        for parameter in command.params:
            monkeypatch.setattr(parameter, "type", parameter.type)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_a_command_that_there_is_and_lets_it_end(path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(path.read_text())
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    service = unit["Service"]
    check_command(shlex.split(service["ExecStart"].replace("%i", "1")), "/etc/datasette-ingest/datasette.yaml")
    assert int(service["TimeoutStopSec"]) > GRACE_SECONDS
    assert service["Restart"] == "always"


def test_there_are_units_for_both_ends() -> None:
    assert [path.name for path in UNITS] == ["datasette-ingest-persist.service", "datasette-ingest-worker@.service"]


def test_the_services_of_the_compose_file_start_commands_that_there_are() -> None:
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    given = settings.load(
        yaml.safe_load((FOLDER / "datasette.yaml").read_text())["plugins"]["datasette-ingest"] | {"store": None}
    )
    assert given.kafka is not None
    assert compose["services"].keys() == {"kafka", "worker", "persist"}
    broker = compose["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert broker == f"PLAINTEXT://{given.kafka.bootstrap[0]}"
    for name in ("worker", "persist"):
        service = compose["services"][name]
        check_command(service["command"], "/config/datasette.yaml")
        assert int(service["stop_grace_period"].rstrip("s")) > GRACE_SECONDS
        assert any("/config/datasette.yaml" in volume for volume in service["volumes"])
    assert compose["services"]["worker"]["deploy"]["replicas"] <= given.kafka.partitions
