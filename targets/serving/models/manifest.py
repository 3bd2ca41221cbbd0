"""A generation on disk: `gen-NNNNNN/` with shards, then `manifest.json`, then the marker that makes it committed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

import msgspec

MANIFEST: Final = "manifest.json"
MARKER: Final = "COMMITTED"  # holds the digest of the manifest
STATIC: Final = "static.json"
_FOLDER: Final = re.compile(r"gen-(\d{6,})")


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a generation."""

    name: str
    length: int
    digest: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a generation consists of."""

    generation: int
    step: int
    shards: tuple[Shard, ...]

    def encode(self) -> bytes:
        """The same bytes for the same content."""
        return msgspec.json.encode(self)


def digest(data: bytes) -> str:
    """Of a shard or a manifest."""
    return hashlib.sha256(data).hexdigest()


def folder(models: Path, generation: int) -> Path:
    return models / f"gen-{generation:06}"


def numbers(models: Path) -> list[int]:
    """All generations that have a folder, oldest first."""
    if not models.is_dir():
        return []
    return sorted(int(match[1]) for path in models.iterdir() if (match := _FOLDER.fullmatch(path.name)))


def committed(models: Path) -> list[int]:
    """Those that are complete, oldest first."""
    return [number for number in numbers(models) if (folder(models, number) / MARKER).exists()]
