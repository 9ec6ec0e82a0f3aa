"""Importing this package does not make Datasette load its plugins: one that is half imported would be passed over."""

import subprocess
import sys


def test_the_hooks_are_all_there_even_when_this_package_was_imported_before_datasette():
    code = (
        "import datasette_ingest.testing, sys; assert 'datasette.plugins' not in sys.modules; "
        "from datasette.plugins import pm; print(sorted(h.name for h in pm.get_hookcallers(datasette_ingest) or []))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "register_ingest_enrichments" in done.stdout, done.stderr
