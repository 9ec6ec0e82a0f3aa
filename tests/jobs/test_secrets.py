"""A secret comes from the environment, else from datasette-secrets; without either the message says where to put it."""

import sys
import types

import pytest

from datasette_ingest import get_secret
from datasette_ingest.jobs.errors import JobError
from datasette_ingest.jobs.secrets import MissingSecret

NAME = "EXAMPLE_API_KEY"
VARIABLE = f"DATASETTE_SECRETS_{NAME}"
DATASETTE = object()


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "datasette_secrets", None)  # as if it were not installed


@pytest.fixture
def kept(monkeypatch):
    """A datasette-secrets that keeps what a test puts into it, by (name, actor), and notes who asked."""

    class Kept(dict):
        asked = []

    secrets = Kept()

    async def keeper(datasette, secret_name, actor_id=None):
        secrets.asked = [*secrets.asked, (datasette, secret_name, actor_id)]
        return secrets.get((secret_name, actor_id))

    module = types.ModuleType("datasette_secrets")
    module.get_secret = keeper
    monkeypatch.setitem(sys.modules, "datasette_secrets", module)
    return secrets


async def test_the_environment_holds_it(monkeypatch):
    monkeypatch.setenv(VARIABLE, "s3cret")
    assert await get_secret(DATASETTE, NAME) == "s3cret"


async def test_it_is_read_anew_each_time_so_that_a_new_one_is_used(monkeypatch):
    monkeypatch.setenv(VARIABLE, "old")
    assert await get_secret(DATASETTE, NAME) == "old"
    monkeypatch.setenv(VARIABLE, "new")
    assert await get_secret(DATASETTE, NAME) == "new"


async def test_datasette_secrets_is_asked_on_behalf_of_the_actor(kept):
    kept[NAME, "ada"] = "hers"
    assert await get_secret(DATASETTE, NAME, "ada") == "hers"
    assert kept.asked == [(DATASETTE, NAME, "ada")]


async def test_the_environment_goes_before_datasette_secrets(kept, monkeypatch):
    kept[NAME, None] = "kept"
    monkeypatch.setenv(VARIABLE, "from the environment")
    assert await get_secret(DATASETTE, NAME) == "from the environment"
    assert kept.asked == []


async def test_an_empty_variable_counts_as_none(kept, monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    kept[NAME, None] = "kept"
    assert await get_secret(DATASETTE, NAME) == "kept"


async def test_a_secret_of_another_name_is_not_taken(monkeypatch):
    monkeypatch.setenv(NAME, "without the prefix")
    monkeypatch.setenv(f"{VARIABLE}_2", "another")
    with pytest.raises(MissingSecret):
        await get_secret(DATASETTE, NAME)


async def test_without_one_the_message_says_where_to_put_it():
    with pytest.raises(MissingSecret) as raised:
        await get_secret(DATASETTE, NAME)
    assert f"environment variable {VARIABLE}" in str(raised.value)
    assert isinstance(raised.value, JobError) and raised.value.status == 400


@pytest.mark.parametrize("nothing", [None, ""])
async def test_datasette_secrets_without_it_is_as_if_it_were_not_installed(kept, nothing):
    kept[NAME, "ada"] = nothing
    with pytest.raises(MissingSecret, match=VARIABLE):
        await get_secret(DATASETTE, NAME, "ada")
