"""Targets made of small Python programs."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.api import JSON, Launch
from chaos.testing import Recorder


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def stage() -> Recorder:
    return Recorder()


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., Launch]:
    """A launch of members given as Python source, by name; `**more` goes into the target file."""

    def make(
        programs: dict[str, str],
        *,
        lab: bool = True,
        points: tuple[str, ...] = (),
        node: str = "",
        folder: Path = tmp_path,
        **more: Any,
    ) -> Launch:
        if lab:
            need_user_namespaces()
        members = [
            {"name": name, "role": "program", "command": ["python", "-c", textwrap.dedent(source)], **place(name, node)}
            for name, source in programs.items()
        ]
        spec = {"members": members, "settings": {}, "stop-grace": "500ms", **more}
        base = Path(__file__).parents[2]
        return Launch(spec=spec, settings={}, folder=folder / "run", base=base, points=points, lab=lab)

    return make


def place(name: str, node: str) -> JSON:
    """`node="n-"` puts member `a` on node `n-a`."""
    return {"node": f"{node}{name}"} if node else {}


def need_user_namespaces() -> None:
    """Skip where the kernel gives nobody a lab; where it does, a lab that cannot be built is a failure."""
    if reason := _closed():
        pytest.skip(reason)


@functools.cache
def _closed() -> str:
    program = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"
    closed = subprocess.run([sys.executable, "-I", "-S", "-c", program]).returncode
    return "user namespaces are closed: `chaos doctor` says why" if closed else ""
