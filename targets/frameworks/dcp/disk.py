"""What lies on the disk: which pieces `.metadata` names, and which of them are there in full.

DCP cuts each tensor into chunks, one for each rank that holds a part of it. A piece is such a chunk, or an object that
is no tensor. `.metadata` names pieces twice: what the checkpoint consists of (`state_dict_metadata`), and in which
bytes of which file each was written (`storage_data`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata

from chaos.inside import emit


class Piece(NamedTuple):
    """One that is on the disk in full."""

    rank: int
    size: int
    digest: str


def metadata_of(path: Path) -> Metadata | None:
    """The commit record of a checkpoint; None where there is none."""
    return FileSystemReader(path).read_metadata() if (path / ".metadata").exists() else None


def named(metadata: Metadata) -> list[str]:
    """Every piece that the checkpoint is said to consist of."""
    found = []
    for name, what in metadata.state_dict_metadata.items():
        if isinstance(what, TensorStorageMetadata):
            found += [_name(MetadataIndex(name, chunk.offsets)) for chunk in what.chunks]
        else:
            found.append(name)
    return sorted(found)


def written(path: Path, metadata: Metadata) -> dict[str, Piece]:
    """Every piece whose bytes are all there."""
    found = {}
    for index, place in (metadata.storage_data or {}).items():
        file = path / place.relative_path
        content = file.read_bytes()[place.offset : place.offset + place.length] if file.exists() else b""
        if len(content) == place.length:
            rank = int(file.name.removeprefix("__").partition("_")[0])
            found[_name(index)] = Piece(rank, place.length, hashlib.sha256(content).hexdigest())
    return found


def _say_written(path: Path, metadata: Metadata, generation: int, prefix: str = "") -> list[str]:
    """The pieces that are there; all that are named are returned."""
    for name, piece in sorted(written(path, metadata).items()):
        emit(
            "checkpoint.shard_written",
            generation=generation, name=prefix + name, rank=piece.rank, bytes=piece.size, digest=piece.digest,
        )  # fmt: skip
    return [prefix + name for name in named(metadata)]


def say_committed(path: Path, *, generation: int, step: int, epoch: int) -> bool:
    """Say what the disk holds of a generation; whether it has a commit record."""
    metadata = metadata_of(path)
    if metadata is None:
        return False
    shards = _say_written(path, metadata, generation)
    record = hashlib.sha256((path / ".metadata").read_bytes()).hexdigest()
    emit(
        "checkpoint.committed", generation=generation, step=step, epoch=epoch, shards=shards, digest=record
    )  # fmt: skip
    return True


def say_parts_committed(paths: Sequence[Path], *, generation: int, step: int, epoch: int) -> None:
    """The same of a generation that is several checkpoints of DCP, each in a folder of its own."""
    shards, record = [], hashlib.sha256()
    for path in paths:
        metadata = FileSystemReader(path).read_metadata()
        shards += _say_written(path, metadata, generation, f"{path.name}/")
        record.update((path / ".metadata").read_bytes())
    emit(
        "checkpoint.committed",
        generation=generation, step=step, epoch=epoch, shards=shards, digest=record.hexdigest(),
    )  # fmt: skip


def say_read(path: Path, *, generation: int) -> None:
    """The pieces of a part that was just loaded."""
    for name, piece in sorted(written(path, FileSystemReader(path).read_metadata()).items()):
        emit(
            "checkpoint.shard_read",
            generation=generation, name=f"{path.name}/{name}", bytes=piece.size, digest=piece.digest,
        )  # fmt: skip


def say_outcome(path: Path, *, generation: int, step: int, epoch: int, error: BaseException | None = None) -> None:
    """After a save returned or raised: committed is what has a record, whatever the call said."""
    if not say_committed(path, generation=generation, step=step, epoch=epoch):
        files = sorted(f"{file.name}:{file.stat().st_size}" for file in path.glob("*")) if path.exists() else []
        emit("checkpoint.aborted", generation=generation, reason=f"{error}; on disk: {', '.join(files)}"[:300])


def _name(index: MetadataIndex) -> str:
    return f"{index.fqn}@{','.join(map(str, index.offset))}" if index.offset else index.fqn
