"""From values and a template to one HTML file that fetches nothing and runs no script but its own."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

import chaos
from chaos.clean import clean_block
from chaos.history import Event
from chaos.report import contract
from chaos.report.lines import describe, number, seconds, shorten
from chaos.units import counted
from chaos.verdict import Outcome

_HERE = Path(__file__).parent
_ASSETS = _HERE / "assets"


def page(template: str, *, styles: Sequence[str], scripts: Sequence[str], data: Any = None, **values: Any) -> bytes:
    """The page of this template, with its styles and scripts (names below `assets/`) and `data` for them in it.

    Whatever stands in the values becomes text, never markup; a browser runs the scripts named here and no other.
    """
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    compiled = _HERE / "__pycache__"  # compiling takes longer than all else, so keep it where modules are kept
    keep = os.access(compiled, os.W_OK) and not sys.dont_write_bytecode
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_tidy,
        loader=FileSystemLoader(_HERE), bytecode_cache=FileSystemBytecodeCache(str(compiled)) if keep else None,
    )  # fmt: skip
    environment.filters |= {
        "counted": counted,
        "seconds": seconds,
        "number": number,
        "measured": contract.measured,
        "told": _event,
        "prose": _prose,
    }
    environment.globals |= {"width": percent, "version": chaos.__version__}
    start = "\n" + _joined(("start",), ".js") + "\n"
    script = '\n"use strict";\n(() => {\n' + _joined(scripts, ".js") + "\n})();\n"
    shell = {
        "style": Markup(_joined(styles, ".css")),
        "start": Markup(start),
        "script": Markup(script),
        "start_digest": _digest(start),
        "script_digest": _digest(script),
        "data": Markup(embedded(data)),
    }
    return environment.get_template(template).render({**shell, **values}).encode()


def embedded(data: Any) -> str:
    """JSON that may stand between script tags: there is no `<` in it."""
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")


def percent(value: float | None, whole: float | None) -> str:
    """A share as a CSS width."""
    share = value / whole if value is not None and whole else 0.0
    return f"{min(max(share, 0.0), 1.0) * 100:.2f}%"


def _digest(script: str) -> str:
    return b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _event(event: Event) -> str:
    return shorten(describe(event), 140)


def _prose(text: object) -> Any:
    """Text in which `this` is set as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(clean_block(text)))))


def _joined(names: Sequence[str], end: str) -> str:
    text = "\n".join((_ASSETS / f"{name}{end}").read_text(encoding="utf-8").strip() for name in names)
    return re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE)


def _tidy(value: Any) -> Any:
    """Every value on its way into the page: no control character gets through; escaping is Jinja's part."""
    if isinstance(value, Outcome):
        return value.value
    return clean_block(value) if type(value) is str else value
