"""The page at `/`: that of `frost page`, with the server's engine behind it and a live view.

The page itself says nothing of what is served: it asks for that afterwards, with the key if there is one.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from frost.page.build import html

SCRIPTS = ("live.js", "serve.js")


@cache
def front(needs_key: bool) -> str:
    """The page, the same for all runs."""
    style = json.dumps(_asset("serve.css"))
    given = f"const SERVED = {{ needsKey: {json.dumps(needs_key)}, style: {style} }};"
    return html({"name": "serve"}, None, "\n".join([given, *map(_asset, SCRIPTS)]))


def _asset(name: str) -> str:
    return resources.files("frost.serving").joinpath("assets", name).read_text(encoding="utf-8")
