"""frost: any shape-preserving block becomes a network whose depth is chosen at inference.

The names below are what a user types; each is defined, and documented, in its own room, and imported when it is first
used, so that `frost --help` does not wait for PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frost.checkpoint import Run, load, save
    from frost.core.block import branch
    from frost.core.head import Classifier, Dense, OwnHead, Regressor
    from frost.core.iterate import iterate
    from frost.core.model import Frost, FrostConfig
    from frost.core.task import squared_error, within
    from frost.core.trajectory import IterativeModel, Prediction, State, Trajectory
    from frost.evaluation.calibrating import calibrate
    from frost.evaluation.halting_table import evaluate
    from frost.exporting.package import export
    from frost.halting.calibration import Calibration, NotCalibrated
    from frost.halting.ranking import HaltingConfig
    from frost.halting.stopping import AtDepth, Rule, stop_when
    from frost.runtime.async_engine import AsyncEngine
    from frost.runtime.batch_invariance import check_batch_invariance
    from frost.runtime.engine import Engine
    from frost.runtime.live import Result
    from frost.runtime.scheduler import QueueFull
    from frost.runtime.stream import Request
    from frost.serving.client import Client
    from frost.training.fit import fit
    from frost.training.settings import RuntimeConfig, TrainConfig
    from frost.transfer import create
    from frost.zoo.baselines import BasicSSM, Recurrent, Vanilla
    from frost.zoo.fold import fold
    from frost.zoo.registry import ModelConfig, build, named

__all__ = [
    "AsyncEngine", "AtDepth", "BasicSSM", "Calibration", "Classifier", "Client", "Dense", "Engine", "Frost",
    "FrostConfig", "HaltingConfig",
    "IterativeModel", "ModelConfig", "NotCalibrated", "OwnHead", "Prediction", "QueueFull", "Recurrent",
    "Regressor", "Request", "Result", "Rule", "Run", "RuntimeConfig", "State", "TrainConfig", "Trajectory", "Vanilla",
    "branch", "build", "calibrate", "check_batch_invariance", "create", "evaluate", "export", "fit", "fold", "iterate",
    "load", "named", "save", "squared_error", "stop_when", "within",
]

_ROOMS = {
    "frost.checkpoint": ("Run", "load", "save"),
    "frost.core.head": ("Classifier", "Dense", "OwnHead", "Regressor"),
    "frost.core.iterate": ("iterate",),
    "frost.core.model": ("Frost", "FrostConfig"),
    "frost.core.task": ("squared_error", "within"),
    "frost.core.trajectory": ("IterativeModel", "Prediction", "State", "Trajectory"),
    "frost.core.block": ("branch",),
    "frost.halting.calibration": ("Calibration", "NotCalibrated"),
    "frost.halting.stopping": ("AtDepth", "Rule", "stop_when"),
    "frost.halting.ranking": ("HaltingConfig",),
    "frost.runtime.async_engine": ("AsyncEngine",),
    "frost.runtime.engine": ("Engine",),
    "frost.runtime.batch_invariance": ("check_batch_invariance",),
    "frost.runtime.scheduler": ("QueueFull",),
    "frost.runtime.live": ("Result",),
    "frost.runtime.stream": ("Request",),
    "frost.serving.client": ("Client",),
    "frost.training.settings": ("RuntimeConfig", "TrainConfig"),
    "frost.transfer": ("create",),
    "frost.evaluation.calibrating": ("calibrate",),
    "frost.evaluation.halting_table": ("evaluate",),
    "frost.exporting.package": ("export",),
    "frost.training.fit": ("fit",),
    "frost.zoo.baselines": ("BasicSSM", "Recurrent", "Vanilla"),
    "frost.zoo.fold": ("fold",),
    "frost.zoo.registry": ("ModelConfig", "build", "named"),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "cluster":    # many machines: imported when it is asked for, and not before
        return import_module("frost.cluster")
    if name not in _HOMES:
        raise AttributeError(f"module 'frost' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
