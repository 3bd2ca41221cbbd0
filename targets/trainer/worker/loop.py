"""One incarnation of a worker: join the group, load, train, save at every cut."""

from __future__ import annotations

import threading
import time
import traceback
from typing import Any, NoReturn

import msgspec
import torch
from torch.distributed.checkpoint.api import CheckpointException

from chaos.inside import emit, hello, point
from targets.trainer import defects
from targets.trainer.settings import Address, Place, Settings
from targets.trainer.wire import Caller, Refused, Unreachable
from targets.trainer.worker import group, model
from targets.trainer.worker.checkpoint import Damaged, Vault
from targets.trainer.worker.control import Control, Retirement, leave
from targets.trainer.worker.data import Corpus
from targets.trainer.worker.trainer import Trainer

DIED = 13  # exit code of the defect restart-loop


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator's order that makes an agent fork a worker."""

    epoch: int
    rank: int
    world: int
    master: tuple[str, int]


def run(start: Start, leader: Address, agent: int, place: Place, settings: Settings) -> NoReturn:
    """Be this rank until the job is done, the agent stops it, or it has no business any more.

    `agent` is the read end of a pipe whose other end the agent holds as long as it lives.
    """
    try:
        Worker(start, leader, agent, place, settings).run()
    except BaseException:  # a forked child must never unwind into its parent's stack
        traceback.print_exc()
        leave(1)
    leave(0)


class Worker:
    """One rank of one incarnation: obeys the orders of the coordinator that leads it."""

    def __init__(self, start: Start, leader: Address, agent: int, place: Place, settings: Settings) -> None:
        self._start, self._place, self._settings = start, place, settings
        member = f"worker-{place.node}"
        hello(member, role="worker", node=place.node, rank=start.rank, epoch=start.epoch)
        self._retirement = Retirement(member, start.rank, start.epoch, settings)
        self._retirement.watch(agent)
        identity = {"rank": start.rank, "epoch": start.epoch, "node": place.node, "member": member}
        self._control = Control(leader, place.address, identity, self._retirement)
        self._control.start(settings.heartbeat)
        self._store = Caller(place.store, member, try_timeout=settings.try_timeout, source=place.address)
        self._behind: threading.Thread | None = None  # a save that has not ended (save: async)

    def run(self) -> None:
        """Train to the end. A broken collective leaves the worker waiting for its agent to stop it."""
        try:
            self._join()
            self._load()
            self._train()
        except RuntimeError as error:  # what gloo and NCCL raise when a peer is gone
            print(f"rank {self._start.rank}, epoch {self._start.epoch}: {error}", flush=True)
            if "gloo" not in str(error):
                traceback.print_exc()
            self._control.phase = "broken"
            self._control.order("stop")  # never comes: a worker is stopped by its agent
        except Refused as refused:
            if refused.error != "stale-epoch":
                raise
            self._retirement.retire("stale-epoch")

    def _join(self) -> None:
        torch.set_num_threads(1)
        start, settings = self._start, self._settings
        self._group = group.form(
            start.rank, start.world, start.master, address=self._place.address, timeout=settings.gloo_timeout
        )
        staging = self._place.data / "nodes" / self._place.node
        self._vault = Vault(self._store, self._group, start.epoch, staging, settings)
        self._corpus = Corpus(settings.dataset, model.CONTEXT)
        self._control.tell("joined")

    def _load(self) -> None:
        """Load what the coordinator orders, until all ranks agree and it says `go`."""
        while (order := self._control.order("load", "go"))["op"] == "load":
            self._control.phase = "loading"
            generation = order["generation"]
            self._trainer = Trainer(self._group, self._corpus, self._settings)  # nothing of an earlier try is left
            try:
                self._control.tell("loaded", **self._restore(generation) if generation else self._fresh())
            except Damaged as damaged:
                self._control.tell("unloaded", generation=generation, name=damaged.name, reason=damaged.reason)
            except (Unreachable, OSError) as error:
                self._control.tell("unloaded", generation=generation, name="", reason=str(error))

    def _fresh(self) -> dict[str, Any]:
        self._trainer.state.initialise_optimizer()
        return {"generation": 0, "step": 0, "state": {}, "loss": None}

    def _restore(self, generation: int) -> dict[str, Any]:
        trainer, start = self._trainer, self._start
        restored = self._vault.restore(trainer.state, generation)
        trainer.resume(restored)
        state, entries = trainer.state.fingerprint()
        if restored.world != start.world:
            del state["rng"]  # drawn afresh after a resize
        facts = {"step": restored.step, "state": state, "optimizer_entries": entries}
        who = {"rank": start.rank, "world": start.world, "epoch": start.epoch}
        emit("checkpoint.loaded", generation=restored.generation, **who, **facts)
        return {"generation": generation, **facts, "loss": trainer.canary()}

    def _train(self) -> None:
        control, trainer, start, settings = self._control, self._trainer, self._start, self._settings
        who = {"rank": start.rank, "epoch": start.epoch}
        loss = None  # of the last step; none when the job was restored at its end
        control.phase, control.step = "training", trainer.step
        while trainer.step < settings.steps:
            point("step.begin", step=trainer.step + 1, **who)
            if trainer.step and trainer.step == trainer.resumed_at and settings.defect == defects.RESTART_LOOP:
                leave(DIED)
            began = time.monotonic()
            done = trainer.advance(urgent=control.urgent)
            loss = done.loss
            time.sleep(max(began + settings.step_seconds - time.monotonic(), 0.0))
            emit("step.completed", step=trainer.step, world=start.world, **who, **done.facts())
            control.step = trainer.step
            if done.urgent or trainer.step % settings.checkpoint_every == 0 or trainer.step == settings.steps:
                self._cut(loss)
        if self._behind is not None:
            self._settle()
        control.tell("done", step=trainer.step, loss=loss)

    def _cut(self, loss: float) -> None:
        """Save the state after this step, together with all other ranks."""
        control, trainer = self._control, self._trainer
        if self._behind is not None:
            self._settle()
        control.phase = "saving"
        control.tell("ready", step=trainer.step, loss=loss)
        generation = control.order("save")["generation"]
        state, entries = trainer.state.fingerprint()
        facts = {"generation": generation, "step": trainer.step, "state": state}
        who = {"rank": self._start.rank, "epoch": self._start.epoch}
        emit("checkpoint.saved", **facts, **who, optimizer_entries=entries)
        arguments = (trainer.state.snapshot(), generation, trainer.step, state)
        self._behind = threading.Thread(target=self._save, args=arguments, name="save")
        self._behind.start()
        if self._settings.save == "sync":
            self._settle()
        control.urgent = False  # whoever asked meanwhile has been served
        control.phase = "training"

    def _settle(self) -> None:
        """Wait for the end of the round whose save was begun."""
        assert self._behind is not None
        self._control.phase = "saving"
        self._behind.join()
        self._behind = None
        self._control.order("release")
        self._control.phase = "training"

    def _save(self, tensors: dict[str, torch.Tensor], generation: int, step: int, state: dict[str, str]) -> None:
        began = time.monotonic()
        try:
            shards = self._vault.save(tensors, generation, step)
            time.sleep(max(began + self._settings.save_seconds - time.monotonic(), 0.0))
        except (Unreachable, Refused, RuntimeError, OSError, CheckpointException) as error:
            if isinstance(error, Refused) and error.error == "stale-epoch":
                self._retirement.retire("stale-epoch")
            self._control.tell("unsaved", generation=generation, reason=str(error))
        else:
            self._control.tell("saved", generation=generation, shards=shards, state=state)
