"""Where a model runs, and in which precision."""

import pytest
import torch

from conftest import small_frost
from frost.core import precision
from frost.core.precision import autocast, bf16_fault, resolve_precision
from frost.evaluation.throughput import bench
from frost.halting.policy import AtDepth
from frost.runtime.engine import Engine

CPU = torch.device("cpu")
ILLEGAL = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.fixture
def tiles(monkeypatch):
    """A CPU that announces tiles, where a trial product does what it is told."""
    def announce(trial: str) -> None:
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
        monkeypatch.setattr(precision, "TRIAL", trial)
        bf16_fault.cache_clear()

    yield announce
    bf16_fault.cache_clear()


def test_auto_takes_bf16_only_where_the_hardware_multiplies_it(tiles, monkeypatch):
    tiles("pass")
    assert resolve_precision("auto", CPU) == "bf16"
    assert resolve_precision("float32", CPU) == "float32"
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    assert resolve_precision("auto", CPU) == "float32"


def test_auto_is_float32_where_announced_tiles_end_a_process(tiles):
    tiles(ILLEGAL)
    assert resolve_precision("auto", CPU) == "float32"


@pytest.mark.parametrize(("trial", "told"), [(ILLEGAL, "SIGILL"), ("raise SystemExit(3)", "status 3")])
def test_bf16_is_refused_where_a_trial_does_not_end_well(tiles, trial, told):
    tiles(trial)
    with pytest.raises(ValueError, match=rf"bf16 ends a process with {told}; set it to float32"):
        resolve_precision("bf16", CPU)


def test_an_engine_refuses_bf16_where_a_trial_does_not_end_well(tiles):
    tiles(ILLEGAL)
    with pytest.raises(ValueError, match="AMX"):
        Engine(small_frost(), AtDepth(2), precision="bf16")


def test_a_bench_refuses_bf16_before_it_times_anything(tiles):
    tiles(ILLEGAL)
    with pytest.raises(ValueError, match="AMX"):
        bench("frost-resnet-8px", (1,), ("float32", "bf16"))


def test_a_cpu_without_tiles_is_not_tried(tiles, monkeypatch):
    tiles(ILLEGAL)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert bf16_fault() is None


def test_autocast_computes_products_in_its_precision():
    with autocast("bf16", CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with autocast("float32", CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
