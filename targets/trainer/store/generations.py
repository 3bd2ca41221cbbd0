"""Generations of a checkpoint on a shelf. A generation is what its manifest says, never what its folder looks like.

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
from pathlib import PurePosixPath
from typing import Any

import msgspec

from targets.trainer import defects, wire
from targets.trainer.settings import Settings
from targets.trainer.store.ledger import Emit
from targets.trainer.store.shelf import Shelf
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

    def __init__(self, shelf: Shelf, settings: Settings, emit: Emit) -> None:
        self._shelf, self._settings, self._emit = shelf, settings, emit
        self._last = max(self._numbers(), default=0)

    def begin(self, generation: int, step: int, epoch: int, world: int) -> dict[str, Any]:
        """Open a generation, so that it takes shards."""
        folder = self._folder(generation)
        opened = Begun(step=step, epoch=epoch, world=world)
        if self._shelf.has(f"{folder}/begun.json"):
            if self._begun(generation) != opened:
                raise Refused({"error": "immutable"})
            return {}
        self._shelf.open(folder)
        self._shelf.open(f"{folder}/shards")
        self._shelf.create(f"{folder}/begun.json", msgspec.json.encode(opened))
        self._last = max(self._last, generation)
        if defects.active(self._settings, defects.RETENTION_BY_COUNT):
            self._remove(self._numbers()[:-1])
        return {}

    def put(self, generation: int, shard: Shard, body: bytes) -> dict[str, Any]:
        """Store a shard; a second time only with the same content."""
        key = self._shard_key(generation, shard.name)
        self._verify(shard, body)
        there = self._shelf.has(key)
        if there and (self._bug(defects.HALF_SHARD_ACCEPTED) or self._bug(defects.WRITTEN_IN_PLACE)):
            return {}
        if there:
            if self._shelf.read(key) != body:
                raise Refused({"error": "immutable"})
            return {}
        decided = self._shelf.has(f"{self._folder(generation)}/decision.json")
        if decided and not defects.active(self._settings, defects.MARKER_FIRST):
            raise Refused({"error": "immutable"})
        if not self._write_shard(key, body):
            return {}
        self._emit(
            "checkpoint.shard_written",
            generation=generation, name=shard.name, rank=shard.rank, bytes=shard.length, digest=shard.digest,
        )  # fmt: skip
        return {}

    def _write_shard(self, key: str, body: bytes) -> bool:
        """Whether it is on disk; raises OSError when it is not, unless by a deliberate bug."""
        if self._bug(defects.WRITTEN_IN_PLACE):
            self._shelf.scribble(key, body)
            return True
        try:
            self._shelf.create(key, body, content=not self._bug(defects.NO_SHARD_FSYNC))
        except OSError:
            if not self._bug(defects.STORAGE_ERROR_IGNORED):
                raise
            return False
        return True

    def put_half(self, generation: int, shard: Shard, body: bytes) -> None:
        """What a deliberate bug makes of a shard that was cut off."""
        key = self._shard_key(generation, shard.name)
        if not self._shelf.has(key):
            self._shelf.create(key, body)

    def decide(self, generation: int, manifest: Manifest) -> dict[str, Any]:
        """The durable decision to commit: every shard that the manifest names is there and matches."""
        folder = self._folder(generation)
        if not defects.active(self._settings, defects.MARKER_FIRST):
            decided = self._manifest(f"{folder}/decision.json")
            if decided is not None:
                if decided.shards != manifest.shards or decided.step != manifest.step:
                    raise Refused({"error": "immutable"})
                return {}
            looks = not any(map(self._bug, _BLIND))
            for shard in manifest.shards if looks else ():
                self._verify(shard, self._content(self._shard_key(generation, shard.name), shard.name))
        self._publish(f"{folder}/decision.json", msgspec.json.encode(manifest))
        return {}

    def commit(self, generation: int) -> dict[str, Any]:
        """Publish a decided generation: manifest, then marker."""
        folder = self._folder(generation)
        manifest = self._manifest(f"{folder}/decision.json")
        if manifest is None:
            raise Refused({"error": "incomplete"})
        if manifest.generation != generation:
            raise Refused({"error": "format", "name": "decision"})  # the decision of another generation
        text = msgspec.json.encode(manifest)
        again = self._shelf.has(f"{folder}/COMMITTED")
        if not again or defects.active(self._settings, defects.MARKER_FIRST):
            self._publish(f"{folder}/manifest.json", text)
            self._publish(f"{folder}/COMMITTED", wire.digest(text).encode())
            self._publish("latest", f"{generation}\n".encode(), replace=True)
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

    def _publish(self, key: str, data: bytes, *, replace: bool = False) -> None:
        """A record that somebody is about to be told of."""
        replace = replace or self._bug(defects.MARKER_FIRST)
        synced = not defects.active(self._settings, defects.ACK_BEFORE_FSYNC)
        (self._shelf.replace if replace else self._shelf.create)(key, data, content=synced, name=synced)

    def abort(self, generation: int, reason: str) -> dict[str, Any]:
        """Give up a generation that nobody decided to commit; its shards are removed."""
        folder = self._folder(generation)
        names = self._shelf.names(folder)
        unmarked = "COMMITTED" not in names and defects.active(self._settings, defects.UNMARKED_IS_REMOVED)
        if "decision.json" in names and not unmarked:
            raise Refused({"error": "decided"})
        keeps = defects.active(self._settings, defects.RESTORE_NEWEST_DIRECTORY)
        if folder in self._shelf.folders() and not keeps:
            self._shelf.remove(folder)
            self._emit("checkpoint.aborted", generation=generation, reason=reason)
            if self._bug(defects.ABORT_REMOVES_OLDER):
                self._remove([number for number in self._numbers() if number < generation])
        return {}

    def damaged(self, generation: int, name: str, reason: str) -> dict[str, Any]:
        """Mark a generation so that it is never offered again."""
        names = self._shelf.names(folder := self._folder(generation))
        if not names:
            raise Refused({"error": "unknown", "generation": generation})
        if "DAMAGED" not in names:
            self._shelf.replace(f"{folder}/DAMAGED", f"{name}: {reason}\n".encode())
            self._emit("checkpoint.damaged", generation=generation, name=name, reason=reason)
        return {}

    def listing(self) -> dict[str, Any]:
        """All generations that exist, oldest first; the highest number ever seen; what `latest` says."""
        numbers = self._numbers()
        self._last = max(self._last, *numbers, 0)
        latest = self._shelf.read("latest").decode().strip() if self._shelf.has("latest") else ""
        return {"generations": [self._describe(n) for n in numbers], "last": self._last, "latest": latest}

    def manifest(self, generation: int) -> Manifest:
        """The manifest of a committed generation."""
        folder = self._folder(generation)
        if self._shelf.has(f"{folder}/COMMITTED"):
            published = self._published(folder)
            if published.generation == generation:
                return published
            if defects.active(self._settings, defects.LOOK_ALIKE_BELIEVED):
                return msgspec.structs.replace(published, generation=generation)
            raise Refused({"error": "format", "name": "manifest"})  # that of another generation
        if defects.active(self._settings, defects.RESTORE_NEWEST_DIRECTORY):
            return self._look_alike(generation)
        raise Refused({"error": "incomplete"})

    def _published(self, folder: str) -> Manifest:
        text = self._shelf.read(f"{folder}/manifest.json") if self._shelf.has(f"{folder}/manifest.json") else b""
        verified = not defects.active(self._settings, defects.DIGEST_NOT_VERIFIED)
        if verified and wire.digest(text).encode() != self._shelf.read(f"{folder}/COMMITTED"):
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
        body = self._content(self._shard_key(generation, name), name)
        self._verify(shard, body)
        return body

    def _content(self, key: str, name: str) -> bytes:
        try:
            return self._shelf.read(key)
        except FileNotFoundError:
            raise Refused({"error": "incomplete", "name": name}) from None

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
        if self._shelf.has(f"{self._folder(number)}/DAMAGED"):
            return False
        try:
            self.manifest(number)
        except Refused:
            return False
        return True

    def _remove(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._shelf.remove(self._folder(number))
            self._emit("checkpoint.removed", generation=number)

    def _numbers(self) -> list[int]:
        found = (_FOLDER_NAME.fullmatch(name) for name in self._shelf.folders())
        return sorted(int(match[1]) for match in found if match)

    def _describe(self, generation: int) -> dict[str, Any]:
        names = self._shelf.names(self._folder(generation))
        decided, committed = "decision.json" in names, "COMMITTED" in names
        begun = self._begun(generation)
        return {
            "generation": generation,
            "step": begun.step if begun else 0,
            "state": "committed" if committed else "decided" if decided else "open",
            "damaged": "DAMAGED" in names,
        }

    @staticmethod
    def _folder(generation: int) -> str:
        return f"gen-{generation:06}"

    def _shard_key(self, generation: int, name: str) -> str:
        if not _SHARD_NAME.fullmatch(name):
            raise Refused({"error": "unknown", "name": name})
        folder = self._folder(generation)
        if not self._shelf.has(f"{folder}/begun.json"):
            raise Refused({"error": "unknown", "generation": generation})
        return f"{folder}/shards/{name}"

    def _begun(self, generation: int) -> Begun | None:
        """None for a folder that this store did not open, or cannot read."""
        with suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode(self._shelf.read(f"{self._folder(generation)}/begun.json"), type=Begun)
        return None

    def _manifest(self, key: str) -> Manifest | None:
        try:
            return msgspec.json.decode(self._shelf.read(key), type=Manifest)
        except FileNotFoundError:
            return None

    def _look_alike(self, generation: int) -> Manifest:
        """What a folder seems to hold: the deliberate bug takes it for a manifest."""
        begun = self._begun(generation)
        if begun is None:
            raise Refused({"error": "unknown"})
        folder = self._folder(generation)
        found = sorted(n for n in self._shelf.names(folder) if n.startswith("shards/") and not n.endswith(".half"))
        held = {PurePosixPath(name).name: self._shelf.read(f"{folder}/{name}") for name in found}
        shards = tuple(Shard(name=n, rank=0, length=len(b), digest=wire.digest(b)) for n, b in held.items())
        return Manifest(generation=generation, step=begun.step, epoch=begun.epoch, world=begun.world, shards=shards)


def manifest_of(fields: Mapping[str, Any]) -> Manifest:
    """A manifest from a message; Refused when it is none."""
    try:
        return msgspec.convert(fields, Manifest)
    except msgspec.ValidationError as error:
        raise Refused({"error": "unknown", "reason": str(error)}) from error
