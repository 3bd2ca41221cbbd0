"""What a site costs a target while no fault is armed, and what a hit costs."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator

from .figures import Figure
from .place import Place

PROGRAM = """
import json, time
from chaos import inside

values = bytearray(4096)

def nothing(site, data=None, /, **fields):
    pass

def call(function, count):
    began = time.perf_counter()
    for step in range(count):
        function("values", values, step=step, rank=0)
    return (time.perf_counter() - began) / count

rounds = [(call(nothing, 200_000), call(inside.tamper, 200_000)) for _ in range(5)]
inside._tell = lambda kind, **data: None
inside._hooks["values"] = [inside._Hook(1, {"do": "flip", "bit": 3})]
print(json.dumps({"off": rounds, "hit": call(inside.tamper, 20_000)}))
"""


def measure(place: Place) -> Iterator[Figure]:
    """A call beside one of an empty function with the same arguments, in turn in one process."""
    said = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60)
    found = json.loads(said.stdout)
    bare, ours = (statistics.median(r[i] for r in found["off"]) * 1e9 for i in (0, 1))
    yield Figure(what="hooks: a site without a fault", unit="ns", ours=ours, beside=bare, against="an empty function")
    yield Figure(
        what="hooks: a hit", unit="µs", ours=found["hit"] * 1e6, note="one bit of 1024 floats, without telling it"
    )
