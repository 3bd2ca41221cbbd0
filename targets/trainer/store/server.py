"""The store's door: decodes calls, checks the token of every change, records what was accepted and what was refused."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from chaos import inside
from targets.trainer import defects
from targets.trainer.settings import Address, Settings
from targets.trainer.store import durable
from targets.trainer.store.generations import Generations, Shard, manifest_of
from targets.trainer.store.ledger import Emit, Ledger
from targets.trainer.store.shelf import Folder, Shelf
from targets.trainer.wire import Frame, Line, Refused, Truncated

Answer = dict[str, Any]


class Store:
    """All calls of the protocol. Between the check of a token and its change no epoch is issued and nothing changes;
    only renewals pass by, so that a slow disk costs nobody the lease.
    """

    def __init__(self, folder: Path, settings: Settings, emit: Emit = inside.emit, shelf: Shelf | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        durable.sync_folder(folder.parent)
        raising = not defects.active(settings, defects.EPOCH_NOT_RAISED)
        disk = durable.Disk(
            names=not defects.active(settings, defects.NO_DIR_FSYNC),
            insists=defects.active(settings, defects.RETRY_AFTER_EIO),
        )
        self._ledger = Ledger(folder, emit, disk, raising=raising)
        reads_on = not defects.active(settings, defects.SHORT_READ_IS_ALL)
        self._generations = Generations(shelf or Folder(folder, disk, reads_on=reads_on), settings, emit)
        self._settings, self._emit, self._turn = settings, emit, threading.Lock()
        self._leases: dict[str, Callable[[Frame], Answer]] = {
            "lease.acquire": lambda f: self._ledger.acquire(f["holder"], f["ttl"], f["nonce"]),
            "epoch.advance": lambda f: self._ledger.advance(f["holder"], f["token"], f["ttl"], f["reason"]),
        }
        generations = self._generations
        self._changes: dict[str, Callable[[Frame], Answer]] = {
            "generation.begin": lambda f: generations.begin(f["generation"], f["step"], f["token"], f["world"]),
            "shard.put": lambda f: generations.put(f["generation"], _shard(f), f.body),
            "generation.decide": lambda f: generations.decide(f["generation"], manifest_of(f["manifest"])),
            "generation.commit": lambda f: generations.commit(f["generation"]),
            "generation.abort": lambda f: generations.abort(f["generation"], f["reason"]),
            "generation.damaged": lambda f: generations.damaged(f["generation"], f["name"], f["reason"]),
            "job.finish": lambda f: self._ledger.finish(f["outcome"]),
        }

    def handle(self, call: Frame) -> tuple[Answer, bytes]:
        """The answer to one call; raises Refused."""
        op = call["op"]
        if op == "lease.renew":
            return self._ledger.renew(call["holder"], call["token"], call["ttl"]), b""
        with self._turn:
            if op in self._leases:
                return self._leases[op](call), b""
            if op in self._changes:
                return self._change(op, call), b""
            if op == "generation.list":
                return self._generations.listing(), b""
            if op == "manifest.get":
                return {"manifest": msgspec.to_builtins(self._generations.manifest(call["generation"]))}, b""
            if op == "shard.get":
                return {}, self._generations.shard(call["generation"], call["name"])
        raise Refused({"error": "unknown", "op": op})

    def cut_off(self, header: dict[str, Any], body: bytes) -> None:
        """A call whose body did not come to its end: nothing of it counts, unless by a deliberate bug."""
        if header.get("op") == "shard.put" and defects.active(self._settings, defects.HALF_SHARD_ACCEPTED):
            with self._turn, suppress(Refused):
                self._generations.put_half(header["generation"], _shard(Frame(header)), body)

    def _change(self, op: str, call: Frame) -> Answer:
        token, highest = call["token"], self._ledger.highest
        facts = {
            "resource": _resource(op, call), "op": op, "token": token, "highest": highest, "member": call.get("member"),
        }  # fmt: skip
        try:
            if token < highest and not self._unfenced(op, call):
                raise Refused({"error": "stale-epoch", "highest": highest})
            answer = self._changes[op](call)
        except Refused as refused:
            self._emit("write.rejected", **facts, reason=refused.error)
            raise
        self._emit("write.accepted", **facts)
        return answer

    def _unfenced(self, op: str, call: Frame) -> bool:
        """Where a deliberate bug has a hole."""
        return {
            defects.NO_FENCING: True,
            defects.NO_FENCING_ON_COMMIT: op == "generation.commit",
            defects.NO_FENCING_ON_SHARDS: op == "shard.put",
            defects.FENCE_AT_CONNECT: bool(call.get("known")),
        }.get(self._settings.defect, False)


def _shard(call: Frame) -> Shard:
    return Shard(name=call["name"], rank=call["rank"], length=call["length"], digest=call["digest"])


def _resource(op: str, call: Frame) -> str:
    if op == "job.finish":
        return "job"
    if op == "shard.put":
        return f"generation/{call['generation']}/shard/{call['name']}"
    return f"generation/{call['generation']}/{op.partition('.')[2]}"


class Server:
    """A store that listens, with a thread for each connection; one whose peer was cut off waits and costs nothing."""

    def __init__(self, store: Store, address: Address) -> None:
        self._store = store
        self._socket = socket.create_server(address)
        self._lines: set[Line] = set()
        self._closing = False

    @property
    def address(self) -> Address:
        """Where it listens, also when port 0 was asked for."""
        return Address(*self._socket.getsockname()[:2])

    def serve(self) -> None:
        """Take connections until `close`."""
        while True:
            try:
                stream, _ = self._socket.accept()
            except OSError:
                if self._closing:
                    return
                raise
            line = Line(stream)
            self._lines.add(line)
            threading.Thread(target=self._talk, args=(line,), daemon=True).start()

    def close(self) -> None:
        """Stop listening and drop every connection."""
        self._closing = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for line in list(self._lines):
            line.close()

    def _talk(self, line: Line) -> None:
        with suppress(OSError):
            known = False  # a call on this connection was let pass: to the deliberate bug that is enough
            while True:
                try:
                    call = line.receive()
                except Truncated as cut:
                    self._store.cut_off(cut.header, cut.body)
                    raise
                answer, body = self._answer(Frame({**call.header, "known": known}, call.body))
                known = known or answer["ok"]
                line.send({"id": call.get("id"), **answer}, body)
        self._lines.discard(line)
        line.close()

    def _answer(self, call: Frame) -> tuple[Answer, bytes]:
        try:
            answer, body = self._store.handle(call)
        except Refused as refused:
            return {**refused.fields, "ok": False}, b""
        except OSError as error:  # the disk is full, or broken
            return {"ok": False, "error": "storage", "reason": str(error)}, b""
        except msgspec.DecodeError as error:  # a file that somebody tampered with
            return {"ok": False, "error": "format", "reason": str(error)}, b""
        except (KeyError, TypeError) as error:
            return {"ok": False, "error": "unknown", "reason": f"{type(error).__name__}: {error}"}, b""
        return {**answer, "ok": True}, body
