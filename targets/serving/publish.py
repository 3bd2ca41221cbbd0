"""Publishes generations of the models: `python -m targets.serving.publish [--generation N]`.

Trains nothing; does what a trainer's store does at the end of a round: shards, manifest, marker, each durable before
the next. Who kills it in between leaves a folder that nobody serves.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from chaos import inside
from targets.serving.models import manifest as layout
from targets.serving.models.manifest import Manifest, Shard
from targets.serving.models.weights import MODELS, arrays, popularity
from targets.serving.settings import Place, Settings

Emit = Callable[..., None]
STEPS = 1000  # between two generations, had anybody trained them


def publish(models: Path, settings: Settings, generation: int, emit: Emit = inside.emit) -> Manifest:
    """Write a generation and commit it."""
    folder = layout.folder(models, generation)
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for name, data in _contents(settings.seed, generation).items():
        _write(folder / name, data)
        shards.append(Shard(name=name, length=len(data), digest=layout.digest(data)))
    manifest = Manifest(generation=generation, step=generation * STEPS, shards=tuple(shards))
    _write(folder / layout.MANIFEST, manifest.encode())
    facts = {"generation": generation, "step": manifest.step, "digest": layout.digest(manifest.encode())}
    emit("model.published", **facts)
    inside.point("model.before_commit", generation=generation)
    _write(folder / layout.MARKER, str(facts["digest"]).encode())
    _sync(models)
    emit("checkpoint.committed", **facts, shards=[shard.name for shard in shards])
    return manifest


def publish_missing(models: Path, settings: Settings, emit: Emit = inside.emit) -> None:
    """All generations that the settings ask for and that are not committed yet."""
    there = layout.committed(models)
    for generation in range(1, settings.generations + 1):
        if generation not in there:
            publish(models, settings, generation, emit)


def publish_next(models: Path, settings: Settings, emit: Emit = inside.emit) -> int:
    """One more than there are; its number. What is there without a marker keeps its number."""
    generation = max(layout.numbers(models), default=0) + 1
    publish(models, settings, generation, emit)
    return generation


def _contents(seed: int, generation: int) -> dict[str, bytes]:
    from safetensors.numpy import save

    shards = {f"{model}.safetensors": save(arrays(seed, generation, model)) for model in MODELS}
    return {**shards, layout.STATIC: msgspec.json.encode(popularity(seed, generation))}


def _write(path: Path, data: bytes) -> None:
    half = path.with_name(f".{path.name}.half")
    with half.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    half.rename(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def main() -> None:
    settings = Settings.from_environment()
    place = Place.from_environment(settings, member="publisher", node="s0")
    parser = argparse.ArgumentParser(prog="publish", description=__doc__)
    parser.add_argument("--data", type=Path, default=place.data)
    parser.add_argument("--generation", type=int, help="default: those of the settings that are missing")
    options = parser.parse_args()

    def tell(kind: str, /, **data: Any) -> None:
        print(msgspec.json.encode({"kind": kind, **data}).decode(), flush=True)

    models = options.data / "models"
    if options.generation is not None:
        publish(models, settings, options.generation, tell)
    else:
        publish_missing(models, settings, tell)


if __name__ == "__main__":
    main()
