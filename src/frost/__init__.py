"""frost: any shape-preserving block becomes a network whose depth is chosen at inference.

The names below are what a user types; each is defined, and documented, in its own room.
"""

from frost.checkpoint import Run, load, save
from frost.core.model import Frost, FrostConfig, branch
from frost.core.trajectory import IterativeModel, Prediction, State, Trajectory
from frost.halting.calibration import Calibration, NotCalibrated
from frost.halting.policy import AtDepth, ByScore
from frost.zoo.baselines import BasicSSM, Recurrent, Vanilla
from frost.zoo.fold import fold
from frost.zoo.registry import ModelConfig, build, named

__all__ = [
    "AtDepth", "BasicSSM", "ByScore", "Calibration", "Frost", "FrostConfig", "IterativeModel", "ModelConfig",
    "NotCalibrated", "Prediction", "Recurrent", "Run", "State", "Trajectory", "Vanilla", "branch", "build", "fold",
    "load", "named", "save",
]
