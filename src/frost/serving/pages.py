"""A small page that asks the network for nothing: the routes with their answers."""

from __future__ import annotations

from html import escape
from typing import Any

STYLE = """<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:auto;
padding:2rem 1rem}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;
border-bottom:1px solid #8884;vertical-align:top}code{font-size:.9em}</style>"""


def documents(openapi: dict[str, Any]) -> str:
    """Every route: what it takes and what it gives."""
    rows = []
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            takes = ", ".join(route.get("requestBody", {}).get("content", ()))
            query = ", ".join(part["name"] for part in route.get("parameters", ()) if part["in"] == "query")
            gives = "; ".join(f"{status} {answer['description']}" for status, answer in route["responses"].items())
            rows.append(f"<tr><td><code>{method.upper()} {escape(path)}</code></td><td>{escape(takes)}<br>"
                        f"{escape(query)}</td><td>{escape(gives)}</td></tr>")
    return _page("frost: routes", f"<p>{escape(openapi['info']['description'])}</p><table><tr><th>route</th>"
                 f"<th>body, query</th><th>answers</th></tr>{''.join(rows)}</table>")


def _page(title: str, body: str) -> str:
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>{title}</title>{STYLE}<h1>{title}</h1>{body}</html>")
