import sys
from pathlib import Path

import pytest

# The writers of small data sets are the campaigns' own.
sys.path.insert(0, str(Path(__file__).parents[2] / "campaigns"))


@pytest.fixture
def small_set(tmp_path):
    """Writes a small sound set and says what its files must be: `small_set("cifar")` → folder, layout."""
    import hostile_data

    def write(kind: str):
        folder = tmp_path / "set"
        folder.mkdir()
        hostile_data.write_set(kind, folder)
        return folder, hostile_data.pinned(kind, folder)

    return write
