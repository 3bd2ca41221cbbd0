"""The workers of a node. Torch is imported once, here; a fork then costs milliseconds."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch._dynamo  # fully_shard imports it at its first call: half a second in each worker
import torch.distributed.checkpoint
import torch.profiler

from chaos.inside import emit
from targets.trainer.agent.autopsy import Autopsy
from targets.trainer.settings import Address, Place, Settings
from targets.trainer.worker import model
from targets.trainer.worker.data import Corpus
from targets.trainer.worker.loop import Start, run


class Worker(NamedTuple):
    """A forked worker. It lives no longer than the pipe whose other end is `lifeline`."""

    pid: int
    rank: int
    epoch: int
    lifeline: int


class Exited(NamedTuple):
    """A worker that ended by itself or by somebody else's signal (then `code` is negative)."""

    rank: int
    epoch: int
    code: int
    cause: str | None  # None: nothing but the code speaks


class Workers:
    """Starts, ends and reaps workers. The process that owns it must have one thread: it forks."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self._place, self._settings = place, settings
        self._alive: dict[int, Worker] = {}
        self._autopsy = Autopsy()
        torch.set_num_threads(1)
        Corpus(settings.dataset, model.CONTEXT)  # read once, shared by all forks
        gc.collect()
        gc.freeze()  # else the first collection in a fork would copy every page

    @property
    def ranks(self) -> list[int]:
        """The ranks that run on this node."""
        return [worker.rank for worker in self._alive.values()]

    def start(self, order: Start, leader: Address, inherited: Iterable[int]) -> None:
        """Fork a worker in place of older ones; `inherited` are descriptors that are none of its business."""
        self._kill([w for w in self._alive.values() if w.epoch < order.epoch or w.rank == order.rank], "replaced")
        reader, lifeline = os.pipe()
        agent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for descriptor in (lifeline, *inherited, *(w.lifeline for w in self._alive.values())):
                os.close(descriptor)
            _signals_of_worker(agent)
            run(order, leader, reader, self._place, self._settings)
        os.close(reader)
        self._alive[pid] = Worker(pid, order.rank, order.epoch, lifeline)

    def adopt(self, was: int, *, rank: int, epoch: int) -> None:
        """The worker of rank `was` lives on as another rank, or in another epoch."""
        for worker in self._alive.values():
            if worker.rank == was:
                self._alive[worker.pid] = worker._replace(rank=rank, epoch=epoch)

    def kill(self, reason: str, *, up_to_epoch: int | None = None) -> None:
        """SIGKILL the workers of that epoch and older (None: all) and wait for their end; frozen ones die as well."""
        self._kill([w for w in self._alive.values() if up_to_epoch is None or w.epoch <= up_to_epoch], reason)

    def _kill(self, doomed: list[Worker], reason: str) -> None:
        for worker in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
        for worker in doomed:
            os.waitpid(worker.pid, 0)
            self._forget(worker)
            member = f"worker-{self._place.node}"
            emit("worker.stopped", member=member, rank=worker.rank, epoch=worker.epoch, reason=reason)

    def reap(self) -> list[Exited]:
        """Workers that have ended without `kill`."""
        exited = []
        for worker in list(self._alive.values()):
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if pid:
                self._forget(worker)
                code = os.waitstatus_to_exitcode(status)
                exited.append(Exited(worker.rank, worker.epoch, code, self._autopsy.cause(code)))
        return exited

    def _forget(self, worker: Worker) -> None:
        del self._alive[worker.pid]
        os.close(worker.lifeline)


def _signals_of_worker(agent: int) -> None:
    """A notice to a worker counts for its node: pass it on to the agent, who knows what to do."""

    def relay(*_: object) -> None:
        if os.getppid() == agent:
            os.kill(agent, signal.SIGTERM)

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, relay)
