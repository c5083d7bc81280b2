"""A plain FastAPI server of a run at full depth, as one writes it in an hour: the baseline and the control.

    python campaigns/plain_server.py RUN [--keep]

One request, one forward pass in a thread of the pool. It has no limits, no queue and no deadlines, and goes on
computing for clients that have gone. With --keep it forgets no body: a leak.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from typing import Any

import numpy as np
import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from PIL import Image

import frost
from frost.serving.server import bound


def application(run: Any, keep: bool) -> FastAPI:
    """The server."""
    app, kept, counts = FastAPI(), list[bytes](), {"computed": 0}
    size, channels = run.config["model"]["image_size"], run.config["model"]["image_channels"]

    def tensor_of(body: bytes, kind: str) -> torch.Tensor:
        if kind == "application/json":
            return torch.tensor(json.loads(body)["inputs"], dtype=torch.float32)
        if kind == "application/x-npy":
            array = np.load(io.BytesIO(body)).astype(np.float32)
            return torch.from_numpy(array[None] if array.ndim == 3 else array)
        image = Image.open(io.BytesIO(body)).convert("RGB" if channels == 3 else "L").resize((size, size))
        pixels = np.asarray(image, np.float32).reshape(size, size, channels) / 255
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy())[None]

    def answer(body: bytes, kind: str) -> dict[str, Any]:
        with torch.inference_mode():
            output = run.model(tensor_of(body, kind)).outputs[:, -1]
        counts["computed"] += 1
        shares = output.double().softmax(-1)[0]
        return {"label": int(shares.argmax()), "depth": run.model.depth, "probabilities": shares.tolist()}

    @app.post("/predict")
    async def predict(request: Request) -> dict[str, Any]:
        body = await request.body()
        if keep:
            kept.append(body + bytes(10_000))
        return await run_in_threadpool(answer, body, request.headers.get("content-type", ""))

    @app.get("/stats")
    async def stats() -> dict[str, int]:
        return counts

    return app


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    run = frost.load(options.run)
    run.model.eval()
    with bound("127.0.0.1", 0) as listening:
        listening.listen(2048)    # connections wait from now on
        print(json.dumps({"event": "ready", "url": f"http://127.0.0.1:{listening.getsockname()[1]}"}),
              file=sys.stderr, flush=True)
        uvicorn.Server(uvicorn.Config(application(run, options.keep), access_log=False)).run([listening])


if __name__ == "__main__":
    main()
