"""HTML out of nested calls: `tag("p", "text", class_="soft")`. Whatever is not markup already is escaped as text.

Nothing that a run says can become an element or an attribute: text goes in cleaned of control characters and escaped,
here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable

from chaos.report.lines import clean_block

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"})
_VOID = ("br", "meta")


class Markup(str):
    """Text that is HTML already: made here, or written by hand in the code of the page."""

    __slots__ = ()


Content = str | int | float | None | Iterable["Content"]


def tag(name: str, /, *content: Content, **attributes: str | float | None) -> Markup:
    """An element. Attributes: `class_` is `class`, `text_anchor` is `text-anchor`, those that are None are left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{join(content)}</{name}>")


def join(content: Content) -> Markup:
    """Texts, numbers and elements one after the other; None is nothing."""
    if content is None:
        return Markup()
    if isinstance(content, Markup):
        return content
    if isinstance(content, str | int | float):
        return Markup(_escape(content))
    return Markup("".join(map(join, content)))


def _escape(value: str | float) -> str:
    return clean_block(value).translate(_ESCAPES)
