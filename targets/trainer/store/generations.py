"""Generations of a checkpoint on disk. A generation is what its manifest says, never what its folder looks like.

gen-000003/ begun.json      opened: step, epoch, world
            shards/NAME     immutable
            decision.json   two-phase commit: from here on it must be committed, by whoever leads
            manifest.json
            COMMITTED       only now it may be restored
            DAMAGED         never again
latest                      the number of the newest, for people and tools; nothing is restored by it
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from targets.trainer import defects, wire
from targets.trainer.settings import Settings
from targets.trainer.store import durable
from targets.trainer.store.ledger import Emit
from targets.trainer.wire import Refused

_SHARD_NAME = re.compile(r"(?!\.\.?$)[\w.-]{1,100}", re.ASCII)
# What a deliberate bug believes that it has, it does not look at (or sees it in the kernel's cache) before it decides.
_BLIND = (
    defects.UPLOAD_TRUSTED, defects.HALF_SHARD_ACCEPTED, defects.STORAGE_ERROR_IGNORED, defects.RETRY_AFTER_EIO,
    defects.WRITTEN_IN_PLACE,
)  # fmt: skip
_FOLDER_NAME = re.compile(r"gen-(\d{6,})")


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a generation, by content."""

    name: str
    rank: int
    length: int
    digest: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a generation is."""

    generation: int
    step: int
    epoch: int
    world: int
    shards: tuple[Shard, ...]
    loss: float | None = None

    @property
    def names(self) -> list[str]:
        return [shard.name for shard in self.shards]


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """How a generation was opened."""

    step: int
    epoch: int
    world: int


class Generations:
    """All generations of one job. Methods raise Refused; the caller has checked the token and calls one at a time."""

    def __init__(self, folder: Path, settings: Settings, emit: Emit, disk: durable.Disk | None = None) -> None:
        self._root, self._settings, self._emit = folder, settings, emit
        self._disk = disk or durable.Disk()
        self._disk.make_folder(folder)
        durable.clear_removed(folder)
        self._last = max(self._numbers(), default=0)

    def begin(self, generation: int, step: int, epoch: int, world: int) -> dict[str, Any]:
        """Open a generation, so that it takes shards."""
        folder = self._folder(generation)
        opened = Begun(step=step, epoch=epoch, world=world)
        if (folder / "begun.json").exists():
            if self._begun(generation) != opened:
                raise Refused({"error": "immutable"})
            return {}
        self._disk.make_folder(folder)
        self._disk.make_folder(folder / "shards")
        self._disk.write(folder / "begun.json", msgspec.json.encode(opened))
        self._last = max(self._last, generation)
        if defects.active(self._settings, defects.RETENTION_BY_COUNT):
            self._remove(self._numbers()[:-1])
        return {}

    def put(self, generation: int, shard: Shard, body: bytes) -> dict[str, Any]:
        """Store a shard; a second time only with the same content."""
        path = self._shard_path(generation, shard.name)
        self._verify(shard, body)
        if path.exists() and (self._bug(defects.HALF_SHARD_ACCEPTED) or self._bug(defects.WRITTEN_IN_PLACE)):
            return {}
        if path.exists():
            if path.read_bytes() != body:
                raise Refused({"error": "immutable"})
            return {}
        decided = (self._folder(generation) / "decision.json").exists()
        if decided and not defects.active(self._settings, defects.MARKER_FIRST):
            raise Refused({"error": "immutable"})
        if not self._write_shard(path, body):
            return {}
        self._emit(
            "checkpoint.shard_written",
            generation=generation, name=shard.name, rank=shard.rank, bytes=shard.length, digest=shard.digest,
        )  # fmt: skip
        return {}

    def _write_shard(self, path: Path, body: bytes) -> bool:
        """Whether it is on disk; raises OSError when it is not, unless by a deliberate bug."""
        if self._bug(defects.WRITTEN_IN_PLACE):
            path.write_bytes(body)
            return True
        try:
            self._disk.write(path, body, content=not self._bug(defects.NO_SHARD_FSYNC))
        except OSError:
            if not self._bug(defects.STORAGE_ERROR_IGNORED):
                raise
            return False
        return True

    def put_half(self, generation: int, shard: Shard, body: bytes) -> None:
        """What a deliberate bug makes of a shard that was cut off."""
        path = self._shard_path(generation, shard.name)
        if not path.exists():
            self._disk.write(path, body)

    def decide(self, generation: int, manifest: Manifest) -> dict[str, Any]:
        """The durable decision to commit: every shard that the manifest names is there and matches."""
        folder = self._folder(generation)
        if not defects.active(self._settings, defects.MARKER_FIRST):
            decided = self._manifest(folder / "decision.json")
            if decided is not None:
                if decided.shards != manifest.shards or decided.step != manifest.step:
                    raise Refused({"error": "immutable"})
                return {}
            looks = not any(map(self._bug, _BLIND))
            for shard in manifest.shards if looks else ():
                path = self._shard_path(generation, shard.name)
                if not path.exists():
                    raise Refused({"error": "incomplete", "name": shard.name})
                self._verify(shard, path.read_bytes())
        self._publish(folder / "decision.json", msgspec.json.encode(manifest))
        return {}

    def commit(self, generation: int) -> dict[str, Any]:
        """Publish a decided generation: manifest, then marker."""
        folder = self._folder(generation)
        manifest = self._manifest(folder / "decision.json")
        if manifest is None:
            raise Refused({"error": "incomplete"})
        if manifest.generation != generation:
            raise Refused({"error": "format", "name": "decision"})  # the decision of another generation
        text = msgspec.json.encode(manifest)
        again = (folder / "COMMITTED").exists()
        if not again or defects.active(self._settings, defects.MARKER_FIRST):
            self._publish(folder / "manifest.json", text)
            self._publish(folder / "COMMITTED", wire.digest(text).encode())
            self._publish(self._root / "latest", f"{generation}\n".encode())
        if not again:
            self._emit(
                "checkpoint.committed",
                generation=generation, step=manifest.step, epoch=manifest.epoch, shards=manifest.names,
                digest=wire.digest(text),
            )  # fmt: skip
            self._retain()
        return {}

    def _bug(self, name: str) -> bool:
        return defects.active(self._settings, name)

    def _publish(self, path: Path, data: bytes) -> None:
        """A record that somebody is about to be told of."""
        synced = not defects.active(self._settings, defects.ACK_BEFORE_FSYNC)
        self._disk.write(path, data, content=synced, name=synced)

    def abort(self, generation: int, reason: str) -> dict[str, Any]:
        """Give up a generation that nobody decided to commit; its shards are removed."""
        folder = self._folder(generation)
        unmarked = not (folder / "COMMITTED").exists() and defects.active(self._settings, defects.UNMARKED_IS_REMOVED)
        if (folder / "decision.json").exists() and not unmarked:
            raise Refused({"error": "decided"})
        keeps = defects.active(self._settings, defects.RESTORE_NEWEST_DIRECTORY)
        if folder.exists() and not keeps:
            self._disk.remove_folder(folder)
            self._emit("checkpoint.aborted", generation=generation, reason=reason)
            if self._bug(defects.ABORT_REMOVES_OLDER):
                self._remove([number for number in self._numbers() if number < generation])
        return {}

    def damaged(self, generation: int, name: str, reason: str) -> dict[str, Any]:
        """Mark a generation so that it is never offered again."""
        mark = self._folder(generation) / "DAMAGED"
        if not mark.parent.exists():
            raise Refused({"error": "unknown", "generation": generation})
        if not mark.exists():
            self._disk.write(mark, f"{name}: {reason}\n".encode())
            self._emit("checkpoint.damaged", generation=generation, name=name, reason=reason)
        return {}

    def listing(self) -> dict[str, Any]:
        """All generations that exist, oldest first; the highest number ever seen; what `latest` says."""
        numbers = self._numbers()
        self._last = max(self._last, *numbers, 0)
        pointer = self._root / "latest"
        latest = pointer.read_text().strip() if pointer.exists() else ""
        return {"generations": [self._describe(n) for n in numbers], "last": self._last, "latest": latest}

    def manifest(self, generation: int) -> Manifest:
        """The manifest of a committed generation."""
        folder = self._folder(generation)
        if (folder / "COMMITTED").exists():
            published = self._published(folder)
            if published.generation == generation:
                return published
            if defects.active(self._settings, defects.LOOK_ALIKE_BELIEVED):
                return msgspec.structs.replace(published, generation=generation)
            raise Refused({"error": "format", "name": "manifest"})  # that of another generation
        if defects.active(self._settings, defects.RESTORE_NEWEST_DIRECTORY):
            return self._look_alike(generation)
        raise Refused({"error": "incomplete"})

    def _published(self, folder: Path) -> Manifest:
        path = folder / "manifest.json"
        text = path.read_bytes() if path.exists() else b""
        verified = not defects.active(self._settings, defects.DIGEST_NOT_VERIFIED)
        if verified and wire.digest(text).encode() != (folder / "COMMITTED").read_bytes():
            raise Refused({"error": "digest", "name": "manifest"})
        try:
            return msgspec.json.decode(text, type=Manifest)
        except msgspec.DecodeError as error:
            raise Refused({"error": "format", "name": "manifest"}) from error

    def shard(self, generation: int, name: str) -> bytes:
        """The bytes of a shard of a committed generation, as its manifest says."""
        shard = next((shard for shard in self.manifest(generation).shards if shard.name == name), None)
        if shard is None:
            raise Refused({"error": "unknown", "name": name})
        path = self._shard_path(generation, name)
        if not path.exists():
            raise Refused({"error": "incomplete", "name": name})
        body = path.read_bytes()
        self._verify(shard, body)
        return body

    def _verify(self, shard: Shard, body: bytes) -> None:
        if defects.active(self._settings, defects.DIGEST_NOT_VERIFIED):
            return
        if len(body) != shard.length:
            raise Refused({"error": "length", "name": shard.name, "length": len(body)})
        if wire.digest(body) != shard.digest and not defects.active(self._settings, defects.LENGTH_ONLY):
            raise Refused({"error": "digest", "name": shard.name})

    def _retain(self) -> None:
        good = [number for number in self._numbers() if self._is_good(number)]
        kept = good[-max(self._settings.keep, 1) :]
        if kept:
            # Open and decided generations are never older than the oldest that is kept, or belong to nobody any more.
            self._remove([number for number in self._numbers() if number < kept[0]])

    def _is_good(self, number: int) -> bool:
        """Whether it is committed, and its manifest says so of this very one: a look-alike takes nobody's place."""
        if (self._folder(number) / "DAMAGED").exists():
            return False
        try:
            self.manifest(number)
        except Refused:
            return False
        return True

    def _remove(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._disk.remove_folder(self._folder(number))
            self._emit("checkpoint.removed", generation=number)

    def _numbers(self) -> list[int]:
        found = (_FOLDER_NAME.fullmatch(path.name) for path in self._root.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def _describe(self, generation: int) -> dict[str, Any]:
        folder = self._folder(generation)
        decided, committed = (folder / "decision.json").exists(), (folder / "COMMITTED").exists()
        begun = self._begun(generation)
        return {
            "generation": generation,
            "step": begun.step if begun else 0,
            "state": "committed" if committed else "decided" if decided else "open",
            "damaged": (folder / "DAMAGED").exists(),
        }

    def _folder(self, generation: int) -> Path:
        return self._root / f"gen-{generation:06}"

    def _shard_path(self, generation: int, name: str) -> Path:
        if not _SHARD_NAME.fullmatch(name):
            raise Refused({"error": "unknown", "name": name})
        folder = self._folder(generation)
        if not (folder / "begun.json").exists():
            raise Refused({"error": "unknown", "generation": generation})
        return folder / "shards" / name

    def _begun(self, generation: int) -> Begun | None:
        """None for a folder that this store did not open, or cannot read."""
        path = self._folder(generation) / "begun.json"
        with suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode(path.read_bytes(), type=Begun)
        return None

    @staticmethod
    def _manifest(path: Path) -> Manifest | None:
        return msgspec.json.decode(path.read_bytes(), type=Manifest) if path.exists() else None

    def _look_alike(self, generation: int) -> Manifest:
        """What a folder seems to hold: the deliberate bug takes it for a manifest."""
        begun = self._begun(generation)
        if begun is None:
            raise Refused({"error": "unknown"})
        files = sorted(f for f in (self._folder(generation) / "shards").iterdir() if f.suffix != ".half")
        shards = tuple(
            Shard(name=f.name, rank=0, length=f.stat().st_size, digest=wire.digest(f.read_bytes())) for f in files
        )
        return Manifest(generation=generation, step=begun.step, epoch=begun.epoch, world=begun.world, shards=shards)


def manifest_of(fields: Mapping[str, Any]) -> Manifest:
    """A manifest from a message; Refused when it is none."""
    try:
        return msgspec.convert(fields, Manifest)
    except msgspec.ValidationError as error:
        raise Refused({"error": "unknown", "reason": str(error)}) from error
