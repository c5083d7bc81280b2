"""Answers as Arrow tables: the columns of `frost predict`'s CSV, or the output's numbers where there are no classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from frost.runtime.engine_thread import Outcome
from frost.runtime.probabilities import surest

if TYPE_CHECKING:
    import pyarrow as pa

TRACE = ("actor", "at", "stepped_for", "stepped")    # who computed a row, when, and its work until then


def answer(outcome: Outcome, has_classes: bool, names: Sequence[str]) -> dict[str, Any]:
    """One row, without its key."""
    if outcome.output is None or outcome.score is None:
        return {"error": f"{outcome.error}."}
    rest = {"depth": outcome.depth, "score": outcome.score}
    if not has_classes:
        return {"output": outcome.output.double().flatten().tolist(), **rest}
    label, confidence = surest(outcome.output)
    return {"label": label, "class": names[label] if label < len(names) else str(label), "confidence": confidence,
            **rest}


def schema(key: Any, has_classes: bool) -> pa.Schema:
    """The columns of answers under a key of this Arrow field."""
    import pyarrow as pa

    kinds = ({"label": pa.int64(), "class": pa.string(), "confidence": pa.float64()} if has_classes
             else {"output": pa.list_(pa.float64())})
    return pa.schema([key, *kinds.items(), ("depth", pa.int64()), ("score", pa.float64()), ("error", pa.string())])


def traced(plain: pa.Schema) -> pa.Schema:
    """The same with a row's number and trace."""
    import pyarrow as pa

    kinds = (pa.string(), pa.float64(), pa.int64(), pa.int64())
    return pa.schema([*plain, ("row", pa.int64()), *zip(TRACE, kinds, strict=True)])
