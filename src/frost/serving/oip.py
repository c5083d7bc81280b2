"""Open Inference Protocol, version 2, over REST: seven paths, and its binary tensors.

A model is a run. Inputs are its tensors, outputs those of its head; `parameters` may hold a budget and `deadline_ms`.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frost.runtime.engine_thread import Outcome
from frost.runtime.probabilities import probabilities
from frost.serving.asks import JSON, Ask, Refusal, Reply, as_json, parsed, reply_json
from frost.serving.decode import check_count
from frost.serving.predict import Moving, answered

if TYPE_CHECKING:
    from frost.serving.served import ServedRun

TYPES = {"BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
         "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "FP16": np.float16,
         "FP32": np.float32, "FP64": np.float64}
NAMES = {torch.bool: "BOOL", torch.uint8: "UINT8", torch.int8: "INT8", torch.int16: "INT16", torch.int32: "INT32",
         torch.int64: "INT64", torch.float16: "FP16", torch.bfloat16: "FP32", torch.float32: "FP32",
         torch.float64: "FP64"}
LENGTH = b"inference-header-content-length"
VERSION = "1"
OUTPUT_TYPES = {"label": "INT64", "probabilities": "FP64", "numbers": "FP32", "logits": "FP32", "depth": "INT64",
                "score": "FP64", "is_late": "BOOL", "is_reduced": "BOOL"}
PER_ROW = ("depth", "score", "is_late", "is_reduced")


def server() -> Reply:
    """`GET /v2`."""
    return reply_json({"name": "frost", "version": version("frost-ssm"), "extensions": ["binary_tensor_data"]})


def model(served: ServedRun) -> Reply:
    """`GET /v2/models/{name}`."""
    inputs = [{"name": _input_name(part.name), "datatype": NAMES[part.dtype], "shape": [-1, *part.shape]}
              for part in served.signature.parts]
    outputs = [{"name": name, "datatype": OUTPUT_TYPES[name], "shape": [-1, *_shape(served, name)]}
               for name in _outputs(served)]
    return reply_json({"name": served.name, "versions": [VERSION], "platform": "frost", "inputs": inputs,
                       "outputs": outputs})


async def infer(served: ServedRun, ask: Ask) -> Reply:
    """`POST /v2/models/{name}/infer`."""
    request, binary = _parts(ask, await ask.body())
    rows = _rows(served, ask, request, binary)
    wanted = _wanted(served, request)
    fields = {name: value for name, value in _object(request, "parameters").items() if name != "binary_data_output"}
    async with Moving(ask):
        outcomes = await answered(served, ask, rows, fields)
    for place, outcome in enumerate(outcomes):
        if not isinstance(outcome, Outcome) or outcome.output is None:
            why = outcome.error if isinstance(outcome, Outcome) else str(outcome)
            raise Refusal(422 if isinstance(outcome, Outcome) else 504, f"row {place}: {why}")
    return _reply(served, request, wanted, [outcome for outcome in outcomes if isinstance(outcome, Outcome)])


def _parts(ask: Ask, body: bytes) -> tuple[dict[str, Any], bytes]:
    """The JSON, and the binary tensors behind it."""
    length = ask.header(LENGTH)
    if length and (not length.isdecimal() or len(length) > 20 or int(length) > len(body)):
        raise Refusal(400, f"Inference-Header-Content-Length must be a length within the body, got '{length[:20]}'.")
    split = int(length) if length else len(body)
    request = parsed(body[:split], ask.limits.json_depth)
    if not isinstance(request, dict) or not isinstance(request.get("inputs"), list):
        raise Refusal(400, 'the request must be an object with a list "inputs".')
    return request, body[split:]


def _rows(served: ServedRun, ask: Ask, request: dict[str, Any], binary: bytes) -> list[Any]:
    """The inputs, one a row, in the form that the model takes."""
    signature = served.signature
    tensors, offset = {}, 0
    for entry in request["inputs"]:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise Refusal(400, "each input is an object with name, shape, datatype and data.")
        size = _object(entry, "parameters").get("binary_data_size")
        if size is not None and (not isinstance(size, int) or not 0 <= size <= len(binary) - offset):
            raise Refusal(400, f"binary_data_size of '{entry['name'][:40]}' does not fit the body.")
        part = None if size is None else binary[offset:offset + size]
        offset += size or 0
        tensors[entry["name"]] = torch.from_numpy(_array(entry, part))
    known = [_input_name(part.name) for part in signature.parts]
    if sorted(tensors) != sorted(known) or len(request["inputs"]) != len(known):
        raise Refusal(422, f"the model's inputs are {', '.join(known)}.")
    counts = {len(tensor) if tensor.ndim else 0 for tensor in tensors.values()}
    if len(counts) != 1 or 0 in counts:
        raise Refusal(422, "the inputs must have the same number of rows, at least one.")
    (count,), parts = counts, [tensors[name] for name in known]
    check_count(count, ask)
    if signature.kind == "tensor":
        return list(parts[0])
    if signature.kind == "dict":
        return [{part.name: tensor[row] for part, tensor in zip(signature.parts, parts, strict=True)}
                for row in range(count)]
    return [tuple(tensor[row] for tensor in parts) for row in range(count)]


def _array(entry: dict[str, Any], binary: bytes | None) -> NDArray[Any]:
    """One tensor of a request."""
    kind, shape = TYPES.get(str(entry.get("datatype"))), entry.get("shape")
    if kind is None:
        raise Refusal(422, f"datatype is one of {', '.join(TYPES)}.")
    if not isinstance(shape, list) or not 1 <= len(shape) <= 16 or not all(
            isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= 2**32 for size in shape):
        raise Refusal(422, "shape is a list of sizes.")
    try:
        flat: NDArray[Any] = (np.asarray(entry.get("data"), kind).ravel() if binary is None else
                              np.frombuffer(binary, kind))
        return flat.reshape(shape).copy()
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Refusal(422, f"the data of '{entry['name'][:40]}' does not fit its shape and datatype "
                           f"({str(error)[:120]}).") from None


def _wanted(served: ServedRun, request: dict[str, Any]) -> list[tuple[str, bool]]:
    """The outputs that were asked for, all if none were named, and whether as bytes."""
    known, asked = _outputs(served), request.get("outputs") or []
    by_default = bool(_object(request, "parameters").get("binary_data_output"))
    if not isinstance(asked, list) or not all(isinstance(one, dict) and one.get("name") in known for one in asked):
        raise Refusal(422, f"the model's outputs are {', '.join(known)}.")
    return [(one["name"], bool(_object(one, "parameters").get("binary_data", by_default))) for one in asked] or [
        (name, by_default) for name in known]


def _reply(served: ServedRun, request: dict[str, Any], wanted: list[tuple[str, bool]],
           outcomes: list[Outcome]) -> Reply:
    """Outputs as numbers, or as bytes behind the JSON."""
    outputs, binary = [], b""
    for name, is_binary in wanted:
        values = _values(name, outcomes)
        entry: dict[str, Any] = {"name": name, "datatype": OUTPUT_TYPES[name], "shape": list(values.shape)}
        if is_binary:
            data = values.tobytes()
            entry["parameters"] = {"binary_data_size": len(data)}
            binary += data
        else:
            entry["data"] = values.ravel().tolist()
        outputs.append(entry)
    answer = {"model_name": served.name, "model_version": VERSION, "outputs": outputs}
    if isinstance(request.get("id"), str):
        answer["id"] = request["id"][:128]
    head = as_json(answer)
    if not binary:
        return Reply(200, head, JSON)
    return Reply(200, head + binary, "application/octet-stream", ((LENGTH.decode(), str(len(head))),))


def _values(name: str, outcomes: list[Outcome]) -> NDArray[Any]:
    """An output of all rows."""
    outputs = [outcome.output for outcome in outcomes if outcome.output is not None]
    together: Tensor = torch.stack(outputs)
    if name == "label":
        return together.argmax(dim=-1).numpy()
    if name == "probabilities":
        return np.stack([probabilities(output) for output in outputs])
    if name in ("numbers", "logits"):
        return together.float().numpy()
    if name == "score":
        return np.array([np.nan if outcome.score is None else outcome.score for outcome in outcomes])
    return np.array([getattr(outcome, name) for outcome in outcomes])


def _outputs(served: ServedRun) -> tuple[str, ...]:
    head = ("label", "probabilities", "logits") if served.gives == "classes" else ("numbers",)
    return (*head, "depth", *(("score",) if served.run.model.has_score else ()), "is_late",
            "is_reduced")


def _shape(served: ServedRun, name: str) -> tuple[int, ...]:
    """Of an output, without the batch."""
    return () if name in PER_ROW else served.shape[:-1] if name == "label" else served.shape


def _input_name(name: str) -> str:
    return "input" if not name else f"input_{name}" if name.isdecimal() else name


def _object(holder: dict[str, Any], name: str) -> dict[str, Any]:
    value = holder.get(name) or {}
    if not isinstance(value, dict):
        raise Refusal(400, f"{name} must be an object.")
    return value
