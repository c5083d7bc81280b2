"""Runs on many machines with Ray (the extra `cluster`): a data set's answers, and a service of several replicas."""

from frost.cluster.dataset import predict
from frost.cluster.deployment import deployment

__all__ = ["deployment", "predict"]
