"""Everything but the hot path as FastAPI routes, and what /openapi.json says of all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from frost.serving import oip, schema
from frost.serving.app import GONE, asked, failed
from frost.serving.asks import Ask, ClientGone, Refusal, Reply, reply_json
from frost.serving.front import front
from frost.serving.pages import documents
from frost.serving.predict import predict
from frost.serving.service import Service
from frost.serving.trajectory import page_facts, trajectory

Handler = Callable[..., Awaitable[Reply]]
HTML = "text/html; charset=utf-8"


def make_routes(service: Service) -> FastAPI:
    """The router of a service."""
    app = FastAPI(title="frost", version=version("frost-ssm"), docs_url=None, redoc_url=None, description=schema.ABOUT)
    app.exception_handler(HTTPException)(_unknown)
    handlers = _Handlers(service, app)
    for method, path, handler, extra in (
            ("GET", "/", handlers.front, schema.PAGE),
            ("GET", "/docs", handlers.docs, schema.PAGE),
            ("GET", "/live", handlers.live, schema.LIVE),
            ("GET", "/ready", handlers.ready, schema.READY),
            ("GET", "/metrics", handlers.metrics, schema.METRICS),
            ("GET", "/stats", handlers.stats, schema.STATS),
            ("POST", "/predict", handlers.predict, schema.predict(service)),
            ("POST", "/runs/{name}/predict", handlers.predict, schema.predict(service)),
            ("POST", "/runs/{name}/trajectory", handlers.trajectory, schema.trajectory(service)),
            ("GET", "/runs/{name}/page", handlers.page_facts, schema.FACTS),
            ("GET", "/v2", handlers.v2, schema.V2),
            ("GET", "/v2/health/live", handlers.live, schema.LIVE),
            ("GET", "/v2/health/ready", handlers.ready, schema.READY),
            ("GET", "/v2/models/{name}", handlers.v2_model, schema.V2_MODEL),
            ("GET", "/v2/models/{name}/ready", handlers.v2_ready, schema.READY),
            ("POST", "/v2/models/{name}/infer", handlers.v2_infer, schema.infer(service)),
            ("GET", "/v2/models/{name}/versions/{version}", handlers.v2_model, schema.V2_MODEL),
            ("GET", "/v2/models/{name}/versions/{version}/ready", handlers.v2_ready, schema.READY),
            ("POST", "/v2/models/{name}/versions/{version}/infer", handlers.v2_infer, schema.infer(service))):
        app.add_api_route(path, _endpoint(service, path, handler), methods=[method], response_class=Response,
                          name=f"{method} {path}", **schema.route(extra, path))
    return app


class _Handlers:
    """What each route does."""

    def __init__(self, service: Service, app: FastAPI) -> None:
        self.service, self.app = service, app

    async def front(self, ask: Ask) -> Reply:
        return Reply(200, front(bool(self.service.keys)).encode(), HTML)

    async def docs(self, ask: Ask) -> Reply:
        return Reply(200, documents(self.app.openapi()).encode(), HTML)

    async def live(self, ask: Ask) -> Reply:
        return reply_json({"live": True})

    async def ready(self, ask: Ask) -> Reply:
        states = {name: served.engine.progress.state for name, served in self.service.runs.items()}
        is_ready = self.service.is_ready
        words = {} if is_ready else {"error": "the server is ending" if self.service.is_draining else "an engine does "
                                     "not take inputs"}
        return reply_json({"ready": is_ready, "runs": states, **words}, 200 if is_ready else 503)

    async def metrics(self, ask: Ask) -> Reply:
        return Reply(200, self.service.metrics.text(), "text/plain; version=0.0.4; charset=utf-8")

    async def stats(self, ask: Ask) -> Reply:
        runs = {name: served.stats() for name, served in self.service.runs.items()}
        return reply_json({"started": self.service.started, "draining": self.service.is_draining, "runs": runs})

    async def predict(self, ask: Ask, name: str | None = None) -> Reply:
        self._open()
        return await predict(self.service.run_named(name or ask.query().get("run")), ask)

    async def trajectory(self, ask: Ask, name: str) -> Reply:
        self._open()
        served = self.service.run_named(name)
        ask.notes["run"] = name
        return await trajectory(served, ask, self.service.beside)

    async def page_facts(self, ask: Ask, name: str) -> Reply:
        self._open()
        served = self.service.run_named(name)
        ask.notes["run"] = name
        return await page_facts(served, ask, self.service.beside)

    async def v2(self, ask: Ask) -> Reply:
        return oip.server()

    async def v2_model(self, ask: Ask, name: str, version: str = oip.VERSION) -> Reply:
        _check_version(version)
        return oip.model(self.service.run_named(name))

    async def v2_ready(self, ask: Ask, name: str, version: str = oip.VERSION) -> Reply:
        _check_version(version)
        served = self.service.run_named(name)
        if self.service.is_draining or not served.engine.progress.is_ready:
            raise Refusal(503, f"the run is {served.engine.progress.state}.")
        return reply_json({"name": name, "ready": True})

    async def v2_infer(self, ask: Ask, name: str, version: str = oip.VERSION) -> Reply:
        _check_version(version)
        self._open()
        served = self.service.run_named(name)
        ask.notes["run"] = name
        return await oip.infer(served, ask)

    def _open(self) -> None:
        if self.service.is_draining:
            raise Refusal(503, "the server is ending and takes no more requests.", ("connection", "close"))


def _endpoint(service: Service, path: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        ask = asked(request.scope)
        ask.notes["route"] = path
        try:
            return _response(await handler(ask, **request.path_params))
        except Refusal as refusal:
            return _response(refusal.reply)
        except ClientGone:
            return Response(status_code=GONE)    # for the log; there is no one to send it to
        except Exception as error:
            return _response(failed(service, ask, error).reply)
    return endpoint


def _response(reply: Reply) -> Response:
    return Response(reply.body, reply.status, {**dict(reply.headers), "content-type": reply.kind})


async def _unknown(request: Request, error: Any) -> Response:
    """No such route, or not with this method; in the form of all other errors."""
    sentence = {404: "there is no such path; /docs has them all.",
                405: "the path does not take this method; /docs has what it takes."}.get(error.status_code, "refused.")
    return _response(Refusal(error.status_code, sentence, *(error.headers or {}).items()).reply)


def _check_version(version: str) -> None:
    if version != oip.VERSION:
        raise Refusal(404, f"a run has one version, {oip.VERSION}.")
