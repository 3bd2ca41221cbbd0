"""The decision as a badge: one small SVG, "recovery paths 41/43 proved"."""

from __future__ import annotations

from xml.sax.saxutils import escape

from chaos.gate.decision import Decision, Verdict

_COLORS = {Verdict.OPEN: "#2e7d32", Verdict.BLOCKED: "#c62828", Verdict.NO_DATA: "#6b6b6b"}
_LABEL = "recovery paths"
# Verdana at 11 px, in tenths of a pixel, for the characters that stand in a badge; others are as wide as the widest.
_WIDTHS = {
    **dict.fromkeys("iljI.,:;|", 35), **dict.fromkeys("rtf /()", 44), **dict.fromkeys("cszkvxy", 60),
    **dict.fromkeys("abdeghnopqu0123456789", 70), **dict.fromkeys("mwMW", 105),
}  # fmt: skip


def encode(decision: Decision) -> bytes:
    """The picture; a screen reader is told the same words."""
    count = f"{decision.proved}/{len(decision.paths)} proved"
    value = "no data" if decision.verdict is Verdict.NO_DATA else count
    left, right = _width(_LABEL), _width(value)
    whole, title = left + right, escape(f"{_LABEL} {value}")
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" aria-label="{title}">
<title>{title}</title>
<clipPath id="r"><rect width="{whole}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#444"/>\
<rect x="{left}" width="{right}" height="20" fill="{_COLORS[decision.verdict]}"/></g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{left / 2:g}" y="14">{escape(_LABEL)}</text>
<text x="{left + right / 2:g}" y="14">{escape(value)}</text>
</g></svg>
""".encode()


def _width(text: str) -> int:
    return round(sum(_WIDTHS.get(character, 105) for character in text) / 10) + 12
