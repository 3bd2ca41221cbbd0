"""Text from members and files made fit for a terminal, XML and a page."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]+"
)


def clean_block(text: object) -> str:
    """`clean` line by line."""
    return "\n".join(_CONTROL.sub(" ", line) for line in str(text).split("\n"))


def clean(text: object) -> str:
    """`text` on one line without control characters: what a member says can neither steer a terminal nor break XML."""
    return _CONTROL.sub(" ", str(text)).strip()
