"""`python -m targets.trainer.coordinator [--index 0|1]`: lead or stand by until the job has ended.

Exits with 0 when it is completed, 1 when it failed, 75 when the store did not answer for `give_up`.
"""

from __future__ import annotations

import argparse
import os
import sys

import anyio

from chaos import inside
from targets.trainer.coordinator.members import Door
from targets.trainer.coordinator.term import Coordinator
from targets.trainer.settings import Place, Settings


def main() -> None:
    settings = Settings.from_environment()
    parser = argparse.ArgumentParser(prog="coordinator")
    member = os.environ.get("CHAOS_MEMBER", "coordinator-0")
    parser.add_argument("--index", type=int, choices=(0, 1), default=int(member.rpartition("-")[2]))
    index: int = parser.parse_args().index
    node = f"n{settings.nodes - 1}" if index == 0 else "n0"
    place = Place.from_environment(settings, member=f"coordinator-{index}", node=node)
    inside.hello(place.member, role="coordinator", node=place.node)
    own, peer = place.coordinator(index, settings), place.coordinator(1 - index, settings)
    coordinator = Coordinator(place, settings, store=place.store, door=Door(own), peer=peer)
    sys.exit(anyio.run(coordinator.run))


if __name__ == "__main__":
    main()
