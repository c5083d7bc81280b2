"""What /openapi.json says: bodies, answers and examples; the routes take raw bodies, so it is written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frost.serving.decode import IMAGE_KINDS, JSON, NPY

if TYPE_CHECKING:
    from frost.serving.service import Service

ABOUT = ("Runs of frost behind HTTP. Each input stops by itself: name a budget (quantile, mean_depth, accuracy_loss or "
         "depth) and a deadline with each request, or take the server's own.")
ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
WHY = {400: "no JSON, or not of the protocol", 401: "no key, or a wrong one", 404: "no such run or path",
       408: "the body did not arrive in time", 413: "too large, or too many inputs",
       415: "a content type that the run does not take", 422: "no input or budget of this run",
       429: "the queue is full; Retry-After says when to come again", 431: "request line and headers are too long",
       503: "not ready, or ending", 504: "the deadline came before the first step"}
ASKING = (400, 401, 404, 408, 413, 415, 422, 429, 431, 503, 504)
ANSWER: dict[str, Any] = {
    "type": "object", "required": ["depth"],
    "properties": {
        "run": {"type": "string"}, "class": {"type": "string"}, "label": {"type": "integer"},
        "confidence": {"type": "number"}, "probabilities": {"type": "array", "items": {"type": "number"}},
        "labels": {"type": "array", "items": {}}, "numbers": {"type": "array", "items": {}},
        "depth": {"type": "integer", "description": "steps taken"}, "score": {"type": ["number", "null"]},
        "is_late": {"type": "boolean", "description": "the deadline came, and this is the answer there was"},
        "budget": {"description": "what it was allowed to spend"},
        "is_reduced": {"type": "boolean", "description": "less than was asked for, because of load"},
        "error": {"type": "string"}}}
ANSWERS = {"type": "object", "properties": {"run": {"type": "string"}, "answers": {"type": "array", "items": ANSWER}}}
NUMBER = {"type": "number"}
TRAJECTORY: dict[str, Any] = {
    "type": "object", "required": ["run", "steps"],
    "properties": {"run": {"type": "string"}, "steps": {"type": "array", "items": {
        "type": "object", "required": ["step", "output", "score", "signals"],
        "properties": {
            "step": {"type": "integer", "minimum": 1},
            "output": {"type": "array", "items": {}, "description": "the answer after this step: logits, or numbers"},
            "score": {"type": ["number", "null"], "description": "in [0, 1]; null of a model without a score"},
            "signals": {"type": "object", "additionalProperties": {"type": ["number", "null"]},
                        "description": "what stopping rules look at, by name; larger is nearer to a stop, null is as "
                                       "far from it as can be"}}}}}}
BUDGET: dict[str, Any] = {
    "quantile": {**NUMBER, "minimum": 0, "maximum": 1}, "mean_depth": {**NUMBER, "minimum": 1},
    "accuracy_loss": {**NUMBER, "exclusiveMinimum": 0}, "depth": {"type": "integer", "minimum": 1},
    "deadline_ms": {**NUMBER, "minimum": 0}}
TENSOR: dict[str, Any] = {
    "type": "object", "required": ["name", "shape", "datatype"],
    "properties": {"name": {"type": "string"}, "datatype": {"type": "string"}, "data": {"type": "array", "items": {}},
                   "shape": {"type": "array", "items": {"type": "integer"}}, "parameters": {"type": "object"}}}


def _answers(schema: dict[str, Any], *statuses: int, kind: str = JSON) -> dict[str, Any]:
    """Responses: the good one, and the others."""
    return {"200": {"description": "the answer", "content": {kind: {"schema": schema}}},
            **{str(status): {"description": WHY[status], "content": {JSON: {"schema": ERROR}}} for status in statuses}}


PAGE = {"responses": _answers({"type": "string"}, 401, kind="text/html")}
LIVE = {"responses": _answers({"type": "object"})}
READY = {"responses": _answers({"type": "object"}, 401, 404, 503)}
METRICS = {"responses": _answers({"type": "string"}, 401, kind="text/plain")}
STATS = {"responses": _answers({"type": "object"}, 401)}
FACTS = {"responses": _answers({"type": "object"}, 401, 404, 429, 503, 504)}
V2 = {"responses": _answers({"type": "object"}, 401)}
V2_MODEL = {"responses": _answers({"type": "object"}, 401, 404)}


def predict(service: Service) -> dict[str, Any]:
    """Of the routes that answer inputs."""
    parameters = [{"name": name, "in": "query", "required": False, "schema": schema}
                  for name, schema in BUDGET.items()]
    examples = {"images": {"value": {"images": ["iVBORw0KGgo…"], "mean_depth": 2, "deadline_ms": 50}}}
    return {"parameters": parameters, "requestBody": _body(service, BUDGET, examples),
            "responses": _answers({"anyOf": [ANSWERS, ANSWER]}, *ASKING)}


def trajectory(service: Service) -> dict[str, Any]:
    """Of the route that gives every step of one input."""
    return {"requestBody": _body(service, {}, {"images": {"value": {"images": ["iVBORw0KGgo…"]}}}, most=1),
            "responses": _answers(TRAJECTORY, *ASKING)}


def _body(service: Service, more: dict[str, Any], examples: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    """Inputs in every form that some run takes, and in JSON what else may be said."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    kinds = {kind: binary for kind in (*IMAGE_KINDS, NPY)
             if kind == NPY or any(served.reader.size is not None for served in service.runs.values())}
    count = {"type": "array", "minItems": 1, **({} if most is None else {"maxItems": most})}
    properties = {"images": {**count, "items": {"type": "string", "format": "byte"}}, "inputs": {**count, "items": {}},
                  **more}
    body = {"schema": {"type": "object", "properties": properties, "additionalProperties": False},
            "examples": examples}
    return {"required": True, "content": {**kinds, JSON: body}}


def infer(service: Service) -> dict[str, Any]:
    """Of the Open Inference Protocol."""
    body = {"type": "object", "required": ["inputs"],
            "properties": {"id": {"type": "string"}, "inputs": {"type": "array", "items": TENSOR, "minItems": 1},
                           "outputs": {"type": "array", "items": {"type": "object"}},
                           "parameters": {"type": "object", "properties": BUDGET}}}
    first = next(iter(service.runs.values()))
    example = {"inputs": [{"name": part.name or "input", "shape": [1, *part.shape], "datatype": "FP32", "data": []}
                          for part in first.signature.parts], "parameters": {"mean_depth": 2}}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": body, "example": example}}},
            "responses": _answers({"type": "object"}, *ASKING)}


def route(extra: dict[str, Any], path: str) -> dict[str, Any]:
    """The same as FastAPI takes it, with what the path holds and the run by name."""
    parameters = list(extra.get("parameters", ()))
    parameters += [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                   for name in ("name", "version") if f"{{{name}}}" in path]
    if path == "/predict":
        parameters.append({"name": "run", "in": "query", "required": False, "schema": {"type": "string"}})
    return {"openapi_extra": {**extra, "parameters": parameters}}
