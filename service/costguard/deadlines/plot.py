"""A drawing of what policies cost, as SVG: a point and its interval for each."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, ROW, TOP, LEFT, RIGHT = 720, 34, 56, 170, 40
COLOURS = ("#1f6feb", "#b35900")


class Line(NamedTuple):
    """The results of one policy: its costs relative to on-demand with their intervals, one for each title."""

    name: str
    costs: Sequence[tuple[float, float, float]]


def drawing(title: str, series: Sequence[str], lines: Sequence[Line]) -> str:
    """SVG that reads on light and dark pages. `series`: what the costs of each line are, one colour each."""
    low = min((cost[1] for line in lines for cost in line.costs), default=0.0)
    high = max((cost[2] for line in lines for cost in line.costs), default=1.0)
    low, high = int(low * 20) / 20, (int(high * 20) + 1) / 20
    height = TOP + ROW * len(lines) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="13"><rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>'
    ]
    for place, name in enumerate(series):
        left = LEFT + place * 240
        parts.append(f'<circle cx="{left}" cy="40" r="5" fill="{COLOURS[place % 2]}"/>')
        parts.append(f'<text x="{left + 12}" y="44">{escape(name)}</text>')
    bottom = TOP + ROW * len(lines)
    for tick in range(round(low * 20), round(high * 20) + 1):
        x = _x(tick / 20, low, high)
        parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{tick / 20:.2f}</text>')
    for row, line in enumerate(lines):
        parts.append(f'<text x="12" y="{TOP + ROW * row + 22}">{escape(line.name)}</text>')
        for place, (mean, begin, end) in enumerate(line.costs):
            y = TOP + ROW * row + 12 + 10 * place
            colour = COLOURS[place % 2]
            parts.append(
                f'<line x1="{_x(begin, low, high)}" y1="{y}" x2="{_x(end, low, high)}" y2="{y}" stroke="{colour}" '
                f'stroke-width="2"/><circle cx="{_x(mean, low, high)}" cy="{y}" r="4" fill="{colour}"/>'
            )
    parts.append(f'<text x="{LEFT}" y="{bottom + 34}" fill="#57606a">cost relative to on-demand</text></svg>')
    return "\n".join(parts) + "\n"


def _x(value: float, low: float, high: float) -> float:
    return round(LEFT + (value - low) / max(1e-9, high - low) * (WIDTH - LEFT - RIGHT), 1)
