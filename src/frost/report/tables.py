"""Aligned tables of plain text, without colour, the same on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Right-aligned columns, the first one left-aligned if it holds words."""
    columns = [list(column) for column in zip(header, *rows, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    words = not any(row[0][:1].isdigit() for row in rows)
    lines = []
    for row in (header, *rows):
        cells = [cell.ljust(width) if words and i == 0 else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths, strict=True))]
        lines.append("   ".join(cells).rstrip())
    return "\n".join(lines)


def percent(share: float) -> str:
    """0.9832 → 98.32 %."""
    return f"{100 * share:.2f} %"


def si(number: float, unit: str = "") -> str:
    """85798656 → 85.80 M; 2907900000 → 2.908 G."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= factor:
            digits = 2 if prefix == "M" else 3
            return f"{number / factor:.{digits}f} {prefix}{unit}"
    return f"{number:g} {unit}".rstrip()
