"""What a reproduction writes: figures, `results.json`, and a page that shows both.

The page is one HTML file that asks the network for nothing, light and dark, printable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from frost import directory
from frost.paper.section import sections
from frost.report.drawing import as_files

RESULTS, REPORT, FIGURES = "results.json", "report.html", "figures"
CLASSES = {"holds": "yes", "holds in part": "part", "does not hold here": "no",
           "cannot be tested at this scale": "open"}
CURVES = {"curves", "conflict_over_training", "per_step_accuracy", "errors", "error_bound", "move_ratio"}
MOST_LINES = 400
SIGNS = {"yes": "✓", "part": "◐", "no": "✗", "open": "?"}

STYLE = """
:root{color-scheme:light dark;--ink:#1d2327;--soft:#5b646b;--back:#fff;--card:#f5f7f8;--line:#d5dade;--link:#005a9c;
--yes:#00634a;--part:#8a5a00;--no:#a23b00;--open:#555}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9eb;--soft:#a8b0b6;--back:#15191c;--card:#1e2428;--line:#39424a;
--link:#7cc0ff;--yes:#4fd1a5;--part:#f0b95a;--no:#ff9466;--open:#b9b9b9}
figure svg{filter:invert(.92) hue-rotate(180deg)}}
*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main,header{max-width:60rem;margin:0 auto;padding:0 1rem}h1{margin:1.6rem 0 .2rem;font-size:1.7rem;line-height:1.2}
h2{margin:0 0 .4rem;font-size:1.2rem}p{margin:.4rem 0}a{color:var(--link)}a:focus-visible,summary:focus-visible{
outline:3px solid var(--link);outline-offset:2px}.soft{color:var(--soft);font-size:.9rem}.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}td,th{text-align:left;vertical-align:top;padding:.3rem .5rem;
border-bottom:1px solid var(--line)}section{background:var(--card);border:1px solid var(--line);border-radius:.5rem;
margin:1.2rem 0;padding:1rem}figure{margin:.8rem auto;max-width:36rem}figure svg{display:block;width:100%;height:auto;
background:#fff}.verdict{font-weight:600;white-space:nowrap}.yes{color:var(--yes)}.part{color:var(--part)}
.no{color:var(--no)}.open{color:var(--open)}ul{margin:.4rem 0;padding-left:1.2rem}code{font-size:.85rem;
overflow-wrap:anywhere}summary{cursor:pointer}.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:1rem}
@media (max-width:40rem){table.stack thead{display:none}table.stack td{display:block;border:0;padding:.1rem 0}
table.stack tr{display:block;border-bottom:1px solid var(--line);padding:.5rem 0}}
@media print{section{break-inside:avoid;background:none}figure svg{filter:none}
details::details-content{content-visibility:visible;block-size:auto}}
"""


def write(out: Path, results: Mapping[str, Any]) -> None:
    """Figures first, then the numbers, then the page that shows both; each in one move."""
    (out / FIGURES).mkdir(exist_ok=True)
    pictures = {}
    for name, part in results["sections"].items():
        if not part["checks"]:
            continue
        for file, content in figure_files(name, part, results["timing"]).items():
            directory.replace_file(out / FIGURES / file, content)
            if file.endswith(".svg"):
                pictures[name] = content
    directory.replace_file(out / RESULTS, (json.dumps(results, indent=1, allow_nan=False) + "\n").encode())
    directory.replace_file(out / REPORT, page(results, pictures).encode())


def figure_files(name: str, part: Mapping[str, Any], timing: Mapping[str, Any]) -> dict[str, bytes]:
    """SVG and PNG of one section, drawn from what `results.json` holds of it."""
    return as_files(sections()[name].draw(part["paper"], part["ours"], timing), name)


def page(results: Mapping[str, Any], pictures: Mapping[str, bytes]) -> str:
    """The whole report; `pictures` holds an SVG for each section."""
    parts = results["sections"]
    rows = "".join(f'<tr><td><a href="#{name}">{escape(_title(name))}</a></td><td>{_verdict(part["verdict"])}</td>'
                   f'<td>{escape(part["finding"])}</td></tr>' for name, part in parts.items())
    claims = "".join(f'<tr><td>{escape(row["where"])}</td><td>{escape(row["claim"])}</td><td>{_verdict(row["verdict"])}'
                     f'</td><td>{_figures_of(row)}</td></tr>'
                     for row in results["claims"])
    bodies = "".join(_section(name, part, pictures.get(name), results["timing"]) for name, part in parts.items())
    seconds = results["timing"]["seconds"]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>frost: reproduction of the paper ({escape(results["size"])})</title><style>{STYLE}</style></head><body>
<a class="skip" href="#sections">Skip to the sections</a>
<header><h1>The paper, reproduced</h1>
<p>Scale-Consistent State-Space Dynamics via Fractal of Stationary Transformations: each claim, our measurement, and a
verdict that follows from a stated criterion.</p>
<p class="soft">Size {escape(results["size"])} · data {escape(results["data"]["name"])}, {results["data"]["train"]:,}
training and {results["data"]["test"]:,} test images · {seconds / 60:.0f} minutes of work ·
<code>{escape(results["command"])}</code></p></header>
<main><h2>What holds</h2><div class="wide"><table class="stack"><thead><tr><th>Section</th><th>Verdict</th>
<th>Finding</th></tr></thead><tbody>{rows}</tbody></table></div>
<h2>The claims of abstract and conclusion</h2><div class="wide"><table class="stack"><thead><tr><th>Where</th>
<th>Claim</th><th>Verdict</th><th>Figures</th></tr></thead><tbody>{claims}</tbody></table></div>
<p class="soft">A claim {escape(results["claims_criterion"])}.</p><div id="sections">{bodies}</div></main></body></html>
"""


def _section(name: str, part: Mapping[str, Any], picture: bytes | None, timing: Mapping[str, Any]) -> str:
    one = "" if len(part["seeds"]) > 1 else " (one seed)"
    also = "".join(f"<p>{title}</p><ul>{_checks(part[key])}</ul>" for key, title in
                   (("beyond", "Beyond the paper, no part of the verdict:"),
                    ("sanity", "What must be so by construction:")) if part[key])
    return f"""<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(_title(name))}</h2>
<p>{_verdict(part["verdict"])}</p><p><b>The paper:</b> {escape(part["claim"])}</p>
<p><b>Measured:</b> {escape(part["finding"])}</p>
{_compared(part["compared"])}
{_figure(name, part, picture)}
{_remark(name, timing)}
<details><summary>The criterion, and which parts of it are met</summary><ul>{_checks(part["checks"])}</ul>{also}
<p class="soft">{escape(part["criterion"])}</p></details>
<details><summary>All numbers: the paper's, and ours with 95 % intervals</summary><div class="wide">
<table><thead><tr><th>Number</th><th>Value</th><th>Interval</th><th>n</th></tr></thead><tbody>{_numbers(part)}</tbody>
</table></div></details>
<p class="soft">Seeds {", ".join(map(str, part["seeds"])) or "none"}{one} · <code>{escape(part["command"])}</code></p>
</section>"""


def _checks(checks: Mapping[str, bool | None]) -> str:
    words = {True: ("yes", "✓ met"), False: ("no", "✗ not met"), None: ("open", "? not decided")}
    return "".join(f'<li><span class="{words[met][0]}">{words[met][1]}</span>: {escape(check)}</li>'
                   for check, met in checks.items())


def _compared(rows: Sequence[Sequence[str]]) -> str:
    """The paper's numbers and ours, side by side."""
    if not rows:
        return ""
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"""<div class="wide"><table class="beside"><thead><tr><th>Number</th><th>Paper</th><th>Ours, 95 %
interval</th></tr></thead><tbody>{body}</tbody></table></div>"""


def _figures_of(row: Mapping[str, Any]) -> str:
    """What the verdict on a claim rests on."""
    if not row["sections"]:
        return escape(" ".join(row["figures"]))
    return "".join(f"<p>{_link(name)}: {escape(words)}</p>" for name, words in
                   zip(row["sections"], row["figures"], strict=True))


def _figure(name: str, part: Mapping[str, Any], picture: bytes | None) -> str:
    if picture is None:
        return ""
    words = escape(f"{_title(name)}: {part['finding']}")
    return f'<figure role="img" aria-label="{words}">{_inline(picture, name)}</figure>'


def _remark(name: str, timing: Mapping[str, Any]) -> str:
    """What the clock said, where a section asks it."""
    remark = sections()[name].remark
    return "" if remark is None else f"<p>{escape(remark(timing))}</p>"


def _title(name: str) -> str:
    return sections()[name].title


def _numbers(part: Mapping[str, Any]) -> str:
    """Every number of a section on a line of its own."""
    lines = [("paper: " + name, value) for name, value in _flat(part["paper"])]
    lines += [("ours: " + name, value) for name, value in _flat(part["ours"])]
    return "".join(_line(name, value) for name, value in lines[:MOST_LINES]) + (
        f'<tr><td colspan="4">and {len(lines) - MOST_LINES} more in results.json</td></tr>'
        if len(lines) > MOST_LINES else "")


def _line(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        cells = (f'{value["value"]:.4g}', f'{value["low"]:.4g} to {value["high"]:.4g}', str(value["n"]))
    else:
        cells = (f"{value:.4g}" if isinstance(value, float) else str(value), "", "")
    return f"<tr><td>{escape(name)}</td>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers in a nest of names, curves left out."""
    if isinstance(value, Mapping) and set(value) == {"value", "low", "high", "n"}:
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in CURVES:
                yield from _flat(inner, f"{name}, {key}" if name else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value, 1):
            yield from _flat(inner, f"{name} {index}")
    elif isinstance(value, (int, float, str)) and not isinstance(value, bool):
        yield name, value


def _verdict(verdict: str) -> str:
    kind = CLASSES[verdict]
    return f'<span class="verdict {kind}">{SIGNS[kind]} {escape(verdict)}</span>'


def _link(name: str) -> str:
    return f'<a href="#{name}">{escape(name)}</a>'


def _inline(picture: bytes, name: str) -> str:
    """An SVG as part of the page: without its declaration, with names that no other picture has."""
    text = picture.decode()
    text = text[text.index("<svg"):]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", text)
