"""Loads of shards go in, a drawing of them as SVG comes out: a row of bars for each way to split."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from nearcast.columns.arena import Floats

_COLOURS = ("#1f6feb", "#d1495b", "#2a9d5c", "#b07d00")
_LEFT, _WIDTH, _HEIGHT, _GAP = 110, 640, 90, 44


def draw(loads: Mapping[str, Floats]) -> str:
    """Bars of all ways on one scale; a line at the mean, and the spread beside it."""
    most = max(max(float(values.max()) for values in loads.values()), 1e-300)
    whole = 50 + len(loads) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {whole}" width="900" height="{whole}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="900" height="{whole}" fill="white"/>',
        '<text x="20" y="28" font-size="15">Expected load of each shard: microseconds of CPU a message</text>',
    ]
    for place, (name, values) in enumerate(loads.items()):
        base, step = 50 + place * (_HEIGHT + _GAP) + _HEIGHT, _WIDTH / values.size
        colour = _COLOURS[place % len(_COLOURS)]
        parts.append(f'<text x="20" y="{base - _HEIGHT / 2:.1f}" fill="{colour}" font-size="14">{escape(name)}</text>')
        parts.append(f'<text x="{_LEFT - 6}" y="{base + 4}" text-anchor="end">0</text>')
        for shard, load in enumerate(values.tolist()):
            high, x = _HEIGHT * load / most, _LEFT + shard * step
            parts.append(
                f'<rect x="{x + step * 0.1:.2f}" y="{base - high:.2f}" width="{step * 0.8:.2f}" height="{high:.2f}" '
                f'fill="{colour}"><title>shard {shard}: {load / 1000:.3f}</title></rect>'
            )
            if values.size <= 32:
                parts.append(f'<text x="{x + step / 2:.2f}" y="{base + 15}" text-anchor="middle">{shard}</text>')
        mean = float(values.mean())
        level = base - _HEIGHT * mean / most
        parts.append(f'<path d="M{_LEFT} {level:.2f}H{_LEFT + _WIDTH}" stroke="#333" stroke-dasharray="4 3"/>')
        spread = float(values.max() - values.min()) / max(mean, 1e-300)
        told = (f"mean {mean / 1000:.3f}", f"busiest {float(values.max()) / 1000:.3f}", f"spread {spread:.3f}")
        for line, text in enumerate(told):
            parts.append(f'<text x="{_LEFT + _WIDTH + 12}" y="{base - 40 + 18 * line}">{text}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
