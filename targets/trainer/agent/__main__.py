"""`python -m targets.trainer.agent`"""

from __future__ import annotations

import sys

from chaos.inside import emit, hello
from targets.trainer.settings import Place, Settings


def main() -> int:
    """Be the agent of the node that the environment names, until the job is over or SIGTERM."""
    settings = Settings.from_environment()
    place = Place.from_environment(settings, member="agent-n0", node="n0")
    hello(place.member, role="agent", node=place.node)
    # Torch takes seconds to import; until then a SIGTERM ends the process as it does any other.
    from targets.trainer.agent.agent import Agent
    from targets.trainer.agent.workers import Workers

    agent = Agent(Workers(place, settings), place, settings)
    emit("agent.ready", node=place.node)
    return agent.run()


if __name__ == "__main__":
    sys.exit(main())
