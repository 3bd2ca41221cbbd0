"""`python -m targets.serving.router`"""

from __future__ import annotations

import asyncio
import sys

from chaos.inside import hello
from targets.serving.settings import Place, Settings


def main() -> int:
    """Be the router until SIGTERM."""
    settings = Settings.from_environment()
    place = Place.from_environment(settings, member="router", node="gw")
    hello(place.member, role="router", node=place.node)
    from targets.serving.router.router import serve

    asyncio.run(serve(place, settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
