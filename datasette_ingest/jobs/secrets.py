"""Secrets of enrichments: from datasette-secrets where it is installed, else from the environment; never from a config."""

from __future__ import annotations

import os
from typing import Any

from .errors import JobError


class MissingSecret(JobError):
    """A secret that an enrichment needs is set nowhere; the message says where to set it."""


async def get_secret(datasette: Any, name: str, actor_id: str | None = None) -> str:
    """The secret of that name, such as `EXAMPLE_API_KEY`: the environment variable `DATASETTE_SECRETS_<name>`, or what
    datasette-secrets keeps for it.

    :raises MissingSecret: when there is none
    """
    value = os.environ.get(f"DATASETTE_SECRETS_{name}")
    if not value:
        value = await _kept(datasette, name, actor_id)
    if not value:
        raise MissingSecret(
            f"The secret {name} is not set: put it into the environment variable DATASETTE_SECRETS_{name}"
        )
    return value


async def _kept(datasette: Any, name: str, actor_id: str | None) -> str | None:
    try:
        from datasette_secrets import get_secret as kept
    except ImportError:
        return None
    found = await kept(datasette, name, actor_id)
    return None if found is None else str(found)
