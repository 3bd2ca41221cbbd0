"""What a run makes of a target file: addresses, command lines, environments."""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from chaos.api import JSON, Launch
from chaos.drivers.process.spec import Program, Spec
from chaos.errors import TargetError

LAB_ALIAS = "/dev/shm/chaos"  # inside the lab; a socket's path may have 108 bytes, a run's folder more
SOCKET, TEMPORARY = "events.sock", "tmp"
MOST_NODES = 150


class Recipe:
    """The members of one run, ready to be started."""

    def __init__(self, spec: Spec, launch: Launch) -> None:
        names = spec.node_names()
        if len(names) > MOST_NODES:
            raise TargetError(f"{len(names)} nodes; a lab holds up to {MOST_NODES}")
        self.spec = spec
        self.launch = launch
        self.folder = launch.folder.resolve()
        self.data = self.folder / "data"
        self.logs = self.folder / "logs"
        self.workdir = (launch.base / spec.workdir).resolve()
        self.addresses = {
            name: f"10.77.0.{index + 1}" if launch.lab else f"127.0.0.{index + 2}" for index, name in enumerate(names)
        }
        self.programs = spec.programs(self._values())
        self.alias = LAB_ALIAS if launch.lab else self._short_path()
        # What members forget goes with the lab, or stays with the run.
        self.temporary = str(Path(LAB_ALIAS).parent) if launch.lab else f"{self.alias or self.folder}/{TEMPORARY}"

    def argv(self, program: Program) -> list[str]:
        """`python` as the first word means the interpreter of the harness."""
        first, *rest = program.command
        return [sys.executable if first == "python" else first, *rest]

    def environment(self, program: Program) -> dict[str, str]:
        """What is added to the environment of the harness."""
        paths = filter(None, (str(self.workdir), os.environ.get("PYTHONPATH")))
        return {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONUNBUFFERED": "1",
            "CHAOS_EVENTS": f"{self.alias or self.folder}/{SOCKET}",
            "CHAOS_POINTS": ",".join(self.launch.points),
            "CHAOS_MEMBER": program.name,
            "CHAOS_NODE": program.node or "",
            "CHAOS_ADDRESS": self.addresses.get(program.node or "", "127.0.0.1"),
            "CHAOS_NODES": json.dumps(self.addresses),
            "CHAOS_SETTINGS": json.dumps(self.launch.settings),
            "CHAOS_DATA": str(self.data),
            "TMPDIR": self.temporary,
            **self.spec.environment(self._values()),
            **program.env,
        }

    def nursery(self) -> JSON | None:
        """What is imported once for several members: the interpreter, the modules, its environment."""
        modules = tuple(dict.fromkeys(name for program in self.programs for name in program.preload))
        if not modules:
            return None
        paths = filter(None, (str(self.workdir), os.environ.get("PYTHONPATH")))
        env = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1", "CHAOS_DATA": str(self.data)}
        return {
            "python": sys.executable, "modules": modules, "env": {**env, **self.spec.environment(self._values())},
        }  # fmt: skip

    def preloaded(self, program: Program, environment: Mapping[str, str]) -> bool:
        """Whether a member can be forked from there; a library that must be loaded first asks for an execution."""
        return bool(program.preload) and "LD_PRELOAD" not in environment

    def _values(self) -> JSON:
        return {"data": str(self.data), **{f"address.{node}": a for node, a in self.addresses.items()}}

    def _short_path(self) -> str:
        """Without a lab: a link to a folder whose socket has too long a path; the supervisor makes and removes it."""
        if len(os.fsencode(f"{self.folder}/{SOCKET}")) < 108:
            return ""
        return f"{tempfile.gettempdir()}/chaos-{secrets.token_hex(8)}/run"
