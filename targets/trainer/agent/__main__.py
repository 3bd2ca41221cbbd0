"""`python -m targets.trainer.agent`"""

import sys

from chaos.inside import emit, hello
from targets.trainer.agent.agent import Agent
from targets.trainer.agent.workers import Workers
from targets.trainer.settings import Place, Settings


def main() -> int:
    """Be the agent of the node that the environment names, until the job is over or SIGTERM."""
    settings = Settings.from_environment()
    place = Place.from_environment(settings, member="agent-n0", node="n0")
    hello(place.member, role="agent", node=place.node)
    workers = Workers(place, settings)
    agent = Agent(workers, place, settings)
    emit("agent.ready", node=place.node)
    return agent.run()


if __name__ == "__main__":
    sys.exit(main())
