"""Print a constraints file for pip that holds every dependency of pyproject.toml to the lowest version that it permits.

Usage: python .ci/lowest.py > lowest.txt; pip install -e '.[test]' -c lowest.txt
"""

from __future__ import annotations

import pathlib
import re
import sys

import tomllib

_LOWEST = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*>=\s*(?P<version>[^,;\s]+)[^;]*(?P<marker>;.*)?")


def constraints(project: dict[str, object]) -> list[str]:
    """`name==version` for each dependency with a lower bound, the extras' too, with its marker."""
    extras: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    named = [*project["dependencies"], *(text for extra in extras.values() for text in extra)]  # type: ignore[misc]
    found = (_LOWEST.fullmatch(text) for text in named)
    return [f"{match['name']}=={match['version']}{match['marker'] or ''}" for match in found if match]


if __name__ == "__main__":
    content = pathlib.Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8")
    sys.stdout.write("\n".join(constraints(tomllib.loads(content)["project"])) + "\n")
