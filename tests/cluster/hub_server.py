"""A stand-in for the hub on 127.0.0.1: the few calls that huggingface_hub makes to push and to load a model.

Repositories live in memory; a commit is a mapping of names to bytes. Files that are not text go by the large-file
protocol ("basic"), as on the hub, and are fetched by a redirect to a store of blobs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

TOKEN = "hf_stand_in"


@dataclass
class Repository:
    """Commits by their hash, and branches by their name."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, changes: dict[str, bytes]) -> str:
        """A new commit on a branch."""
        files = self.commits.get(self.branches.get(branch, ""), {}) | changes
        content = f"{len(self.commits)}" + "".join(f"{name}{oid(files[name])}" for name in sorted(files))
        commit = hashlib.sha1(content.encode()).hexdigest()
        self.commits[commit] = files
        self.branches[branch] = commit
        return commit

    def resolve(self, revision: str) -> str | None:
        """The commit of a branch, or the commit itself."""
        return self.branches.get(revision, revision if revision in self.commits else None)


def oid(content: bytes) -> str:
    """The hash by which git knows a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def is_large(content: bytes) -> bool:
    """Whether a file goes by the large-file protocol: what is no text."""
    return b"\0" in content[:512]


def known_as(content: bytes) -> str:
    """The hash by which the hub tells whether a file has changed."""
    return hashlib.sha256(content).hexdigest() if is_large(content) else oid(content)


class Hub(ThreadingHTTPServer):
    """The server; `asked` lists each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.asked: list[str] = []
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self) -> str:
        """What HF_ENDPOINT must be."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def storage(self) -> str:
        """Where large files are fetched: another host, as on the hub, so that a redirect shows."""
        return f"http://localhost:{self.server_address[1]}"


def files_on(server: Hub, name: str = "me/digits", revision: str = "main") -> dict[str, bytes]:
    """What a repository holds."""
    repository = server.repositories[name]
    return repository.commits[repository.resolve(revision) or ""]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16                # head and body in one packet: two would wait for an acknowledgement, 40 ms
    disable_nagle_algorithm = True
    server: Hub

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._route("GET")

    def do_HEAD(self) -> None:
        self._route("HEAD")

    def do_POST(self) -> None:
        self._route("POST")

    def do_PUT(self) -> None:
        self._route("PUT")

    def _route(self, method: str) -> None:
        path = urlsplit(self.path).path
        self.server.asked.append(f"{method} {path}")
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        for verbs, pattern, action in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and method in verbs.split():
                return getattr(self, action)(*map(unquote, found.groups()))
        return self._answer(404, {"error": f"no route {method} {path}"})

    def _answer(self, status: int, content: object = b"", **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    @property
    def _may_write(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _open(self, name: str, revision: str | None = None) -> tuple[Repository, str] | None:
        """A repository and a commit of it; None if the answer that there is none has been given."""
        repository = self.server.repositories.get(name)
        if repository is None or (repository.private and not self._may_write):
            self._answer(401 if repository is None else 404, {"error": "not found"}, X_Error_Code="RepoNotFound")
            return None
        commit = repository.resolve(revision or "main")
        if revision is not None and commit is None:
            self._answer(404, {"error": "no such revision"}, X_Error_Code="RevisionNotFound")
            return None
        return repository, commit or ""

    def _create(self) -> None:
        asked = json.loads(self.body)
        name = f"{asked['organization']}/{asked['name']}"
        if not self._may_write:
            return self._answer(401, {"error": "Invalid credentials"})
        there = name in self.server.repositories
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.server.repositories.setdefault(name, Repository(private))
        return self._answer(409 if there else 200, {"url": f"{self.server.url}/{name}"})

    def _validate(self) -> None:
        import yaml  # comes with huggingface_hub

        content = json.loads(self.body)["content"]
        try:
            front = yaml.safe_load(re.match(r"---\n(.*?)\n---", content, re.S)[1])
            [model] = front.get("model-index", [{"name": "", "results": []}])
            for result in model["results"]:
                assert result["task"]["type"]
                assert all(result["dataset"][part] for part in ("type", "name"))
                assert all("type" in metric and "value" in metric for metric in result["metrics"])
        except Exception as error:
            return self._answer(400, {"errors": [{"message": repr(error)}], "warnings": []})
        return self._answer(200, {"errors": [], "warnings": []})

    def _branch(self, name: str, branch: str) -> None:
        if not self._may_write:
            return self._answer(403, {"error": "forbidden"})
        repository = self.server.repositories[name]
        if branch in repository.branches:
            return self._answer(409, {"error": "exists"})
        repository.branches[branch] = repository.branches.get("main", "")
        return self._answer(200, {})

    def _info(self, name: str, revision: str | None = None) -> None:
        if (found := self._open(name, revision)) is not None:
            repository, commit = found
            files = [{"rfilename": file} for file in repository.commits.get(commit, {})]
            self._answer(200, {"_id": "0", "id": name, "sha": commit, "private": repository.private, "siblings": files,
                               "tags": [], "downloads": 0, "likes": 0})

    def _tree(self, name: str, revision: str) -> None:
        if (found := self._open(name, revision)) is not None:
            repository, commit = found
            rows = []
            for file, content in repository.commits[commit].items():
                large = {"lfs": {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}}
                rows.append({"type": "file", "path": file, "size": len(content), "oid": oid(content),
                             **(large if is_large(content) else {})})
            self._answer(200, rows)

    def _preupload(self, name: str, revision: str) -> None:
        if not self._may_write:
            return self._answer(403, {"error": "forbidden"})
        repository = self.server.repositories[name]
        there = repository.commits.get(repository.resolve(revision) or "", {})
        files = [{"path": file["path"], "shouldIgnore": False,
                  "uploadMode": "lfs" if is_large(base64.b64decode(file["sample"])) else "regular",
                  "oid": known_as(there[file["path"]]) if file["path"] in there else None}
                 for file in json.loads(self.body)["files"]]
        return self._answer(200, {"files": files})

    def _large(self, name: str) -> None:
        objects = [{**one, "actions": {"upload": {"href": f"{self.server.url}/blobs/{one['oid']}"}}}
                   for one in json.loads(self.body)["objects"]]
        self._answer(200, {"transfer": "basic", "objects": objects})

    def _store(self, digest: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != digest:
            return self._answer(400, {"error": "another content"})
        self.server.blobs[digest] = self.body
        return self._answer(200)

    def _commit(self, name: str, revision: str) -> None:
        if not self._may_write:
            return self._answer(403, {"error": "forbidden"})
        changes = {}
        for line in self.body.splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "file":
                changes[value["path"]] = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                changes[value["path"]] = self.server.blobs[value["oid"]]
        commit = self.server.repositories[name].commit(revision, changes)
        return self._answer(200, {"success": True, "commitOid": commit,
                                  "commitUrl": f"{self.server.url}/{name}/commit/{commit}"})

    def _resolve(self, name: str, revision: str, file: str) -> None:
        if (found := self._open(name, revision)) is None:
            return None
        repository, commit = found
        content = repository.commits[commit].get(file)
        if content is None:
            return self._answer(404, {"error": "no such file"}, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        if not is_large(content):
            return self._answer(200, content, X_Repo_Commit=commit, ETag=f'"{oid(content)}"')
        digest = hashlib.sha256(content).hexdigest()
        self.server.blobs[digest] = content
        return self._answer(302, b"", X_Repo_Commit=commit, ETag=f'"{digest}"', X_Linked_Etag=f'"{digest}"',
                            X_Linked_Size=str(len(content)), Location=f"{self.server.storage}/blobs/{digest}")

    def _blob(self, digest: str) -> None:
        self._answer(200, self.server.blobs[digest], ETag=f'"{digest}"')


NAME = r"([\w.-]+/[\w.-]+)"
ROUTES = (
    ("POST", "/api/repos/create", "_create"),
    ("POST", "/api/validate-yaml", "_validate"),
    ("POST", rf"/api/models/{NAME}/branch/([^/]+)", "_branch"),
    ("POST", rf"/api/models/{NAME}/preupload/([^/]+)", "_preupload"),
    ("POST", rf"/api/models/{NAME}/commit/([^/]+)", "_commit"),
    ("GET", rf"/api/models/{NAME}/revision/([^/]+)", "_info"),
    ("GET", rf"/api/models/{NAME}/tree/([^/]+)(?:/)?", "_tree"),
    ("GET", rf"/api/models/{NAME}", "_info"),
    ("POST", rf"/{NAME}\.git/info/lfs/objects/batch", "_large"),
    ("PUT", r"/blobs/([0-9a-f]{64})", "_store"),
    ("GET HEAD", r"/blobs/([0-9a-f]{64})", "_blob"),
    ("GET HEAD", rf"/{NAME}/resolve/([^/]+)/(.+)", "_resolve"),
)
