"""Chaos Toolkit in a venv of its own, made once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

VENV = Path("test-output/peer-venv")
QUIET = ("--no-version-check", "--no-log-file")  # in its favour


class Peer:
    """The peer's command line."""

    def __init__(self, venv: Path) -> None:
        self._program = str(venv.absolute() / "bin/chaos")
        about = subprocess.run([self._program, "--version"], check=True, capture_output=True, text=True)
        self.version = about.stdout.split()[-1]

    def command(self, *arguments: str) -> list[str]:
        return [self._program, *QUIET, *arguments]


def find_peer() -> Peer | str:
    """The peer, or why there is none. Installs it where it is not there yet."""
    stamp = VENV / ".installed"
    try:
        if not stamp.exists():
            print("installing the peer (Chaos Toolkit) into a venv of its own …", flush=True)
            _call([sys.executable, "-m", "venv", "--clear", str(VENV)])
            pip = [str(VENV / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _call([*pip, "chaostoolkit"])
            stamp.touch()
        return Peer(VENV)
    except subprocess.CalledProcessError as error:
        return (str(error.stderr or error).strip().splitlines() or ["?"])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def experiment(folder: Path, *activities: dict[str, Any]) -> Path:
    """Write an experiment of the peer's with that method."""
    file = folder / "peer.json"
    steady = {"title": "nothing", "probes": []}
    body = {"title": "bench", "description": "bench", "steady-state-hypothesis": steady, "method": activities}
    file.write_text(json.dumps({**body, "rollbacks": []}))
    return file


def action(name: str, provider: dict[str, Any], *, before: float = 0.0) -> dict[str, Any]:
    """An activity, after a pause."""
    return {"type": "action", "name": name, "provider": provider, "pauses": {"before": before}}


def _call(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=180)
