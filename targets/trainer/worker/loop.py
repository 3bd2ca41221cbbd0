"""The life of a worker: join the group, load, train, save at every cut; in a warm restart, all over again."""

from __future__ import annotations

import math
import threading
import time
import traceback
from typing import Any, NoReturn

import msgspec
import torch
from torch.distributed.checkpoint.api import CheckpointException

from chaos.inside import emit, hello, point, sites, tamper
from targets.trainer import defects
from targets.trainer.agent.autopsy import OUT_OF_MEMORY
from targets.trainer.settings import Address, Place, Settings
from targets.trainer.wire import Budget, Caller, Frame, Refused, Unreachable
from targets.trainer.worker import group, model
from targets.trainer.worker.checkpoint import Damaged, Restored, Vault
from targets.trainer.worker.control import Control, Regroup, Retirement, leave
from targets.trainer.worker.data import MICRO_BATCH, Corpus
from targets.trainer.worker.memory import Held, Memory
from targets.trainer.worker.shared import Shared
from targets.trainer.worker.state import Fingerprint, shard
from targets.trainer.worker.trainer import Corrupted, Trainer

DIED = 13  # exit code of the defect restart-loop
EXHAUSTED = ("not enough memory", "out of memory", "bad_alloc", "Cannot allocate memory", "can't start new thread")
STUCK = 14  # exit code of a worker that could not be freed for another group


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator's order that makes an agent fork a worker, or a worker go on as a rank of another group."""

    epoch: int
    rank: int
    world: int
    master: tuple[str, int]
    micro_batch: int = MICRO_BATCH
    promoted: bool = False  # a spare takes a lost rank's place
    shards: int | None = None  # ranks of a replica; None: all ranks of the group are one


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
    """One rank, of one incarnation after the other: obeys the orders of the coordinator that leads it."""

    def __init__(self, start: Start, leader: Address, agent: int, place: Place, settings: Settings) -> None:
        self._start, self._place, self._settings = start, place, settings
        member = f"worker-{place.node}"
        hello(member, role="worker", node=place.node, rank=start.rank, epoch=start.epoch)
        sites("gradient", "weight", "activation", "moment", "batch", "snapshot")
        self._retirement = Retirement(member, start.rank, start.epoch, settings)
        self._retirement.watch(agent)
        identity = {"rank": start.rank, "epoch": start.epoch, "node": place.node, "member": member}
        self._control = Control(leader, place.address, identity, self._retirement)
        self._control.start(settings.heartbeat)
        self._store = Caller(place.store, member, try_timeout=settings.try_timeout, source=place.address)
        self._behind: threading.Thread | None = None  # a save that has not ended (save: async)
        self._skipped = False  # a round that the deliberate bug takes no more part in
        self._memory = Memory()

    def run(self) -> None:
        """Train to the end, in this group or in the next. A broken collective leaves the worker waiting for its agent
        to stop it, or for the order to go on in another group.
        """
        while True:
            try:
                self._join()
                self._load()
                self._train()
                return
            except Regroup as regroup:  # not a recovery path: the coordinator's order, and it declares which path it is
                order = regroup.order
            except MemoryError:
                leave(OUT_OF_MEMORY)
            # What gloo and NCCL raise when a peer is gone.
            # not a recovery path: the worker only waits to be stopped or regrouped; the coordinator declares that
            except RuntimeError as error:
                order = self._broken(error)
            except Corrupted as found:  # not a recovery path: as above, once the coordinator has been told
                order = self._corrupted(found)
            except Refused as refused:
                if refused.error != "stale-epoch":
                    raise
                self._retirement.retire("stale-epoch")
                return
            self._regroup(order)

    def _broken(self, error: RuntimeError) -> Frame:
        if any(sign in str(error) for sign in EXHAUSTED):
            leave(OUT_OF_MEMORY)
        print(f"rank {self._start.rank}, epoch {self._start.epoch}: {error}", flush=True)
        if "gloo" not in str(error):
            traceback.print_exc()
        self._control.phase = "broken"
        return self._await_regroup()

    def _corrupted(self, found: Corrupted) -> Frame:
        self._control.tell("corrupted", step=self._trainer.step + 1, culprit=found.rank, reason=found.reason)
        return self._await_regroup()

    def _await_regroup(self) -> Frame:
        try:
            return self._control.order("stop")  # never comes: a worker is stopped by its agent
        except Regroup as regroup:
            return regroup.order

    def _regroup(self, order: Frame) -> None:
        """Leave the old group, and be the rank of the new one that was ordered."""
        if self._behind is not None:
            self._behind.join(self._settings.member_ttl)
            if self._behind.is_alive():
                leave(STUCK)
            self._behind = None
        del self._trainer, self._vault
        self._group.dissolve()
        start = self._start = msgspec.convert(order.header, Start)
        hello(f"worker-{self._place.node}", role="worker", node=self._place.node, rank=start.rank, epoch=start.epoch)
        self._retirement.identify(rank=start.rank, epoch=start.epoch)
        self._control.identify(rank=start.rank, epoch=start.epoch)

    def _join(self) -> None:
        torch.set_num_threads(1)
        start, settings = self._start, self._settings
        self._group = group.form(
            start.rank, start.world, start.master,
            address=self._place.address, timeout=settings.gloo_timeout, shards=start.shards,
        )  # fmt: skip
        self._control.on_regroup = self._group.sever  # else a rank that waits for a frozen peer would never hear of it
        staging = self._place.data / "nodes" / self._place.node
        shared = Shared(self._place.data / "store", settings.visible_wait) if settings.restore == "shared" else None
        self._vault = Vault(self._store, self._group, start.epoch, staging, settings, shared)
        self._corpus = Corpus(settings.dataset, model.CONTEXT)
        self._control.tell("joined", step=self._memory.latest)

    def _load(self) -> None:
        """Load what the coordinator orders, until all ranks agree and it says `go`."""
        while (order := self._control.order("load", "go"))["op"] == "load":
            self._control.phase = "loading"
            generation, step = order["generation"], order["step"]
            self._trainer = Trainer(  # nothing of an earlier try is left
                self._group,
                self._corpus,
                self._settings,
                epoch=self._start.epoch,
                micro_batch=self._start.micro_batch,
            )
            try:
                if order.get("live"):
                    said = self._carry_on(generation, step, spread=order["spread"])
                else:
                    said = self._restore(generation, step) if generation else self._fresh()
                self._remember()
                self._control.tell("loaded", **said)
            except Damaged as damaged:
                self._control.tell("unloaded", generation=generation, name=damaged.name, reason=damaged.reason)
            except (Unreachable, OSError) as error:
                self._control.tell("unloaded", generation=generation, name="", reason=str(error))

    def _fresh(self) -> dict[str, Any]:
        self._trainer.state.initialise_optimizer()
        return {"generation": 0, "step": 0, "state": {}, "loss": None}

    def _restore(self, generation: int, step: int) -> dict[str, Any]:
        trainer, start = self._trainer, self._start
        held = self._memory.recall(generation, step, self._group)
        if held is not None:
            restored = self._vault.refill(trainer.state, held.tensors, held.restored)
        else:
            restored = self._vault.restore(trainer.state, generation, promoted=start.promoted)
        trainer.resume(restored)
        state, entries = trainer.state.fingerprint()
        spoilt = defects.active(self._settings, defects.WARM_KEEPS_NEWER_STATE)
        if held is not None and (state, entries) != held.fingerprint and not spoilt:
            raise Damaged("memory", "disagrees")
        if restored.world != start.world:
            del state["rng"]  # drawn afresh after a resize
        facts = {"step": restored.step, "state": state, "optimizer_entries": entries}
        who = {"rank": start.rank, "world": start.world, "epoch": start.epoch}
        source = "store" if held is None else "memory"
        emit("checkpoint.loaded", generation=restored.generation, **who, **facts, source=source)
        return {"generation": generation, **facts, "loss": trainer.canary()}

    def _carry_on(self, generation: int, step: int, *, spread: bool) -> dict[str, Any]:
        """Go on with the state after `step`, which lies beyond the last checkpoint: from own memory, or from a peer."""
        trainer, start = self._trainer, self._start
        trainer.state.initialise_optimizer()
        own = self._memory.after(step)
        if own is not None:
            trainer.state.fill(own)
        elif not spread:
            raise Damaged("memory", "forgotten")
        fresh = trainer.state.schedule.taken
        if spread:
            trainer.state.spread(receive=own is None)
        if own is None:
            trainer.state.seed_rng(step=step)
            if defects.active(self._settings, defects.REJOIN_STALE_SCHEDULE):
                trainer.state.schedule.taken = fresh
        trainer.resume(Restored(generation, step, start.world))
        state, entries = trainer.state.fingerprint()
        facts = {"step": step, "state": state, "optimizer_entries": entries}
        who = {"rank": start.rank, "world": start.world, "epoch": start.epoch}
        emit("state.resumed", **who, **facts, source="peer" if own is None else "memory")
        return {"generation": generation, **facts, "loss": trainer.canary()}

    def _remember(self) -> None:
        """Where other replicas may go away, this state may be the one to go on with."""
        if self._settings.replicas > 1:
            self._memory.note(self._trainer.step, self._trainer.state)

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
            control.step, control.spans = trainer.step, trainer.spans
            self._remember()
            if done.blamed is not None:
                control.tell("suspect", step=trainer.step, culprit=done.blamed)
            if defects.active(settings, defects.WARM_KEEPS_NEWER_STATE):
                self._memory.spoil(trainer.state)
            if done.urgent or trainer.step % settings.checkpoint_every == 0 or trainer.step == settings.steps:
                self._cut(loss)
        if self._behind is not None:
            self._settle()
        control.tell("done", step=trainer.step, loss=loss)

    def _cut(self, loss: float | None) -> None:
        """Save the state after this step, together with all other ranks."""
        control, trainer = self._control, self._trainer
        if self._behind is not None:
            self._settle()
        control.phase = "saving"
        control.tell("ready", step=trainer.step, loss=loss, canary=trainer.canary())
        order = control.order("save")
        generation = order["generation"]
        budget = Budget.of(self._settings, order.get("within", 20.0), order.get("retries", math.inf))
        state, entries = trainer.state.fingerprint()
        facts = {"generation": generation, "step": trainer.step, "state": state}
        who = {"rank": self._start.rank, "epoch": self._start.epoch}
        emit("checkpoint.saved", **facts, **who, optimizer_entries=entries)
        snapshot = trainer.state.snapshot()
        for name, tensor in snapshot.items():
            tamper("snapshot", shard(tensor), name=name, generation=generation, step=trainer.step, **who)
        if self._settings.restart == "warm":
            cut = Restored(generation, trainer.step, self._start.world)
            self._memory.keep(Held(cut, self._start.rank, trainer.state.own(), Fingerprint(state, entries)))
        arguments = (snapshot, generation, trainer.step, state, budget)
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
        if not self._skipped:
            self._control.order("release")
        self._skipped = False
        self._control.phase = "training"

    def _save(
        self, tensors: dict[str, torch.Tensor], generation: int, step: int, state: dict[str, str], budget: Budget
    ) -> None:
        began = time.monotonic()
        try:
            shards = self._vault.save(tensors, generation, step, budget)
            time.sleep(max(began + self._settings.save_seconds - time.monotonic(), 0.0))
        except (Unreachable, Refused, RuntimeError, OSError, CheckpointException) as error:
            if isinstance(error, Refused) and error.error == "stale-epoch":
                kept = self._settings.restart == "warm" or self._settings.replicas > 1
                if kept and self._control.regroups(self._settings.member_ttl):
                    return  # fenced off from the old group, and wanted in the next
                self._retirement.retire("stale-epoch")
            refused = isinstance(error, Refused) and error.error == "storage"
            if refused and defects.active(self._settings, defects.THROTTLED_RANK_SKIPS):
                self._skipped = True
                return
            self._control.tell("unsaved", generation=generation, reason=str(error), retried=budget.spent)
        else:
            self._control.tell("saved", generation=generation, shards=shards, state=state, retried=budget.spent)
