"""Fixed seeds, one thread, and tiny models that every test may use."""

import os
import signal
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from torch import nn

from browsers import chromium, encoded, node, pages  # noqa: F401 - fixtures of the page's tests
from frost.core.model import Frost, FrostConfig

# Tiles round otherwise than vectors, and some machines announce tiles that they lack; read by oneDNN at its first use.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# Tests run side by side, one a core: what they start must not fight for cores either (one such test took 110 s).
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The writers of small data sets are the campaigns' own.
sys.path.insert(0, str(Path(__file__).parents[1] / "campaigns"))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:    # a shell's background: what the tests start must hear Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("frost", derandomize=True, deadline=None)
settings.load_profile("frost")


@pytest.fixture(autouse=True)
def _repeatable():
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def images():
    return torch.rand(5, 1, 8, 8)


def small_frost(config: FrostConfig | None = None, transition: nn.Module | None = None, channels: int = 8) -> Frost:
    """A convolutional FROST of a few hundred parameters on 8×8 grey images."""
    convolution = nn.Conv2d(channels, channels, 3, padding=1)
    block = transition or nn.Sequential(nn.GroupNorm(2, channels), nn.ReLU(), convolution)
    return Frost(nn.Conv2d(1, channels, 3, padding=1), block, channels=channels, classes=4, config=config)


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
