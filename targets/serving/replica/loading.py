"""Reads a generation: the newest committed one, every byte of it as its manifest says."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from torch import Tensor

from chaos import inside
from targets.serving import defects
from targets.serving.models import manifest as layout
from targets.serving.models.manifest import Manifest, Shard
from targets.serving.models.weights import MODELS
from targets.serving.settings import Settings

Emit = Callable[..., None]
SHARDS: Final = (*(f"{model}.safetensors" for model in MODELS), layout.STATIC)


class Damaged(Exception):
    """A generation that must not be served."""


class Loaded:
    """The models of one generation, as they are in memory now."""

    def __init__(
        self, generation: int, digest: str, models: Mapping[str, Mapping[str, Tensor]], static: list[float]
    ) -> None:
        self.generation, self.digest, self.models, self.static = generation, digest, models, static
        self._sums = {model: checksum(tensors) for model, tensors in models.items()}

    def intact(self, model: str) -> bool:
        """Whether memory still holds what was loaded."""
        return checksum(self.models[model]) == self._sums[model]

    def whole(self) -> bool:
        """The same for all models."""
        return all(self.intact(model) for model in self.models)


def checksum(tensors: Mapping[str, Tensor]) -> int:
    """Over the memory itself: tens of microseconds."""
    crc = 0
    for tensor in tensors.values():
        memory: Any = tensor.numpy()
        crc = zlib.crc32(memory, crc)
    return crc


class Loader:
    """Finds and reads generations; a generation that was found damaged is told of once, and not tried again."""

    def __init__(self, models: Path, settings: Settings, replica: str, emit: Emit = inside.emit) -> None:
        self._models, self._settings, self._replica, self._emit = models, settings, replica, emit
        self._damaged: set[int] = set()
        self._first = max(layout.committed(models), default=0)  # the newest one when this replica started

    def candidates(self, floor: int) -> list[int]:
        """What may be served, best first; nothing older than `floor`, which somebody has served already."""
        if defects.active(self._settings, defects.RESTORE_UNCOMMITTED):
            return layout.numbers(self._models)[::-1]
        there = layout.committed(self._models)
        if defects.active(self._settings, defects.GENERATION_GOES_BACK):
            return [number for number in reversed(there) if number > self._first] or there[:1]
        return [number for number in reversed(there) if number >= floor and number not in self._damaged]

    def load(self, floor: int) -> Loaded | None:
        """The best one that is whole; None: there is none yet."""
        for generation in self.candidates(floor):
            try:
                return self.read(generation)
            except Damaged as error:
                with inside.recovery_path("weights.pass_over"):
                    self._damaged.add(generation)
                    self._emit("checkpoint.damaged", generation=generation, name=self._replica, reason=str(error))
        return None

    def read(self, generation: int) -> Loaded:
        """This one; raises Damaged."""
        began = time.monotonic()
        self._emit("replica.loading", replica=self._replica, generation=generation)
        inside.point("replica.loading", replica=self._replica, generation=generation)
        folder = layout.folder(self._models, generation)
        manifest = self._manifest(folder, generation)
        found = {name: self._shard(folder, name, manifest) for name in SHARDS}
        loaded = _load(generation, self._digest(manifest, generation, found), found)
        time.sleep(max(self._settings.load_seconds - (time.monotonic() - began), 0))
        return loaded

    def _manifest(self, folder: Path, generation: int) -> Manifest | None:
        try:
            text = (folder / layout.MANIFEST).read_bytes()
            manifest = msgspec.json.decode(text, type=Manifest)
            marker = (folder / layout.MARKER).read_text()
        except (OSError, msgspec.DecodeError) as error:
            if self.trusting:
                return None
            raise Damaged(f"manifest: {error}") from error
        if self.trusting or (layout.digest(text) == marker and manifest.generation == generation):
            return manifest
        raise Damaged("the manifest is not that which was committed")

    def _shard(self, folder: Path, name: str, manifest: Manifest | None) -> bytes:
        try:
            data = (folder / name).read_bytes()
        except OSError as error:
            raise Damaged(f"{name}: {error}") from error
        if self.trusting:
            return data
        assert manifest is not None
        said = next((shard for shard in manifest.shards if shard.name == name), None)
        if said is None or (said.length, said.digest) != (len(data), layout.digest(data)):
            raise Damaged(f"{name}: not what the manifest says")
        return data

    def _digest(self, manifest: Manifest | None, generation: int, found: Mapping[str, bytes]) -> str:
        """Of the manifest that these bytes deserve: the published one if all of them are as published."""
        shards = tuple(Shard(name=name, length=len(d), digest=layout.digest(d)) for name, d in found.items())
        step = manifest.step if manifest else 0
        return layout.digest(Manifest(generation=generation, step=step, shards=shards).encode())

    @property
    def trusting(self) -> bool:
        """By a deliberate bug, what is read is not looked at."""
        return self._settings.defect in (defects.DIGEST_NOT_CHECKED, defects.RESTORE_UNCOMMITTED)


def _load(generation: int, digest: str, found: Mapping[str, bytes]) -> Loaded:
    from safetensors.torch import load

    models: dict[str, Any] = {}
    try:
        for model, shapes in MODELS.items():
            tensors = load(found[f"{model}.safetensors"])
            if {name: tuple(tensor.shape) for name, tensor in tensors.items()} != {
                n: s for n, (s, _) in shapes.items()
            }:
                raise Damaged(f"{model}: not the tensors of this model")
            # In the order of their names, and in memory of their own, aligned alike in every process.
            models[model] = {name: tensors[name].clone(memory_format=torch.contiguous_format) for name in shapes}
        static = msgspec.json.decode(found[layout.STATIC], type=list[float])
    except Damaged:
        raise
    except Exception as error:  # safetensors raises what it finds, also from Rust
        raise Damaged(f"{type(error).__name__}: {error}") from error
    return Loaded(generation, digest, models, static)
