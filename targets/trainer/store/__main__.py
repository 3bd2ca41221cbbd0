"""`python -m targets.trainer.store [--data FOLDER]`: serve until SIGTERM."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from chaos import inside
from targets.trainer.settings import Place, Settings
from targets.trainer.store.server import Server, Store
from targets.trainer.store.shelf import Shelf


def shelf_of(place: Place, settings: Settings) -> Shelf | None:
    """The bucket, where the job has an object store; None: the store's own folder."""
    if not settings.objects:
        return None
    from targets.trainer.store.bucket import Bucket  # what it needs is an extra, and slow to load

    return Bucket("http://{}:{}".format(*place.objects), settings)


def main() -> None:
    settings = Settings.from_environment()
    place = Place.from_environment(settings, member="store", node="s0")
    parser = argparse.ArgumentParser(prog="store")
    parser.add_argument("--data", type=Path, default=place.data)
    data: Path = parser.parse_args().data
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # everything that was answered is durable already
    inside.hello(place.member, role="store", node=place.node)
    server = Server(Store(data / "store", settings, shelf=shelf_of(place, settings)), place.store)
    inside.emit("store.ready", address=list(server.address))
    server.serve()


if __name__ == "__main__":
    main()
