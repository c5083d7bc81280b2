"""Large extras are not part of what `make test` installs: their tests are skipped, or fail where they are required."""

import importlib.util
import os

import pytest


def needs(module: str, extra: str) -> None:
    """Skip a test file that needs an extra; with FROST_REQUIRE_CLUSTER=1 fail instead."""
    if importlib.util.find_spec(module) is None:
        words = f"needs {module}: pip install -c constraints.txt -e '.[{extra}]'"
        if os.environ.get("FROST_REQUIRE_CLUSTER") == "1":
            pytest.fail(words, pytrace=False)
        pytest.skip(words, allow_module_level=True)
