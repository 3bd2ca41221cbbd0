"""Loss, rate and delay of packets between the lab's nodes; each stands where the kernel has what it takes."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import anyio
from anyio.abc import TaskGroup

from chaos.api import JSON, Stage
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.fittings.wire import Wire
from chaos.drivers.process.recipe import Recipe
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import NotLanded, Unsupported
from chaos.ways import Late, Lossy, Shape, Slow

HEAL_WITHIN = 3.0  # seconds in which one measurement must show that the way is free again
PROOF = 0.4  # seconds that a measurement of a rate should take
LEAST, MOST = 100, 4000  # packets by which a loss is measured
SURE = 5.0  # standard deviations
TRIES = 6  # looks at a count that goes on


class Packets(Fitting):
    """One kind of trouble on the way between two nodes."""

    what: ClassVar[str]  # the word of `packets.py`
    missing: ClassVar[str]
    fix: ClassVar[str]
    settles: ClassVar[float] = 0.0  # seconds in which what we have sent is through
    supervisor: Supervisor
    wire: Wire

    def __init__(self, recipe: Recipe, stage: Stage) -> None:
        super().__init__(recipe, stage)
        self._ours: dict[Shape, int] = {}  # packets of the harness that had met it when it was measured

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        if "links" not in supervisor.mechanisms:
            raise supervisor.linkless("without the lab there are no links")
        try:
            await supervisor.packets("try", what=self.what)
        except NotLanded as error:
            raise Unsupported(f"{self.missing}: {error}", self.fix) from error
        self.supervisor, self.wire = supervisor, Wire(supervisor, self.recipe.addresses)
        return {"loss": "nftables", "rate": "htb", "delay": "netem"}[self.what]

    async def stand(self, op: str, shape: Shape, **fields: float) -> JSON:
        """Have it so on each way and measure each; nothing of it is left when that fails."""
        before = [await self.before(*pair, shape) for pair in shape.pairs]
        said = await self.supervisor.packets(op, pairs=shape.pairs, **fields)
        try:
            found = [await self.measure(*pair, shape) for pair in shape.pairs]
            self._ours[shape] = await self._count(shape)
        except BaseException:
            await self.supervisor.packets("calm", pairs=shape.pairs)
            raise
        ways = [{"from": a, "to": b, **was, **now} for (a, b), was, now in zip(shape.pairs, before, found, strict=True)]
        return {**said, "pairs": ways}

    async def _count(self, shape: Shape) -> int:
        """Packets that met it, once ours have gone by; where others go on, soon."""
        before, now = -1, 0
        for _ in range(TRIES if self.settles else 1):
            await anyio.sleep(self.settles)
            now = (await self.supervisor.packets("count", pairs=shape.pairs))["packets"]
            if now == before:
                break
            before = now
        return int(now)

    async def undo(self, shape: Shape) -> JSON:
        """Take it away and measure until each way is free."""
        if self.supervisor.gone:
            return {"ended": "with the lab"}
        said = await self.supervisor.packets("calm", pairs=shape.pairs)
        packets = said.pop("packets", None)
        met = {} if packets is None else {"met": max(packets - self._ours.pop(shape, 0), 0)}
        ways = []
        for a, b in shape.pairs:
            with anyio.move_on_after(HEAL_WITHIN):
                while (free := await self.free(a, b, shape)) is None:
                    pass
            if free is None:
                raise NotLanded(f"the way from {a} to {b} is not free again")
            ways.append({"from": a, "to": b, **free})
        return {**said, "pairs": ways, **met}

    async def before(self, source: str, target: str, shape: Shape) -> JSON:
        return {}

    @abstractmethod
    async def measure(self, source: str, target: str, shape: Shape) -> JSON:
        """The proof; NotLanded where there is none."""

    @abstractmethod
    async def free(self, source: str, target: str, shape: Shape) -> JSON | None:
        """The proof that it is gone; None where it may still stand."""


class Loss(Packets):
    """nftables drops packets at random where they arrive."""

    name = "loss"
    what = "loss"
    missing = "the kernel cannot drop at random"
    fix = "a kernel with CONFIG_NFT_NUMGEN"
    capability = Lossy

    async def measure(self, source: str, target: str, shape: Shape) -> JSON:
        sent = min(max(math.ceil(20 / shape.loss), LEAST), MOST)
        arrived = await self.wire.arrivals(source, target, sent)
        lost = sent - arrived
        spread = SURE * math.sqrt(sent * shape.loss * (1 - shape.loss)) + 1
        if not lost or abs(lost - sent * shape.loss) > spread:
            raise NotLanded(f"{lost} of {sent} packets from {source} to {target} were lost, not {shape.loss:.1%}")
        return {"sent": sent, "received": arrived, "lost": round(lost / sent, 4)}

    async def free(self, source: str, target: str, shape: Shape) -> JSON | None:
        sent = min(max(math.ceil(7 / shape.loss), 20), MOST)  # all of them by chance: less than one time in a thousand
        arrived = await self.wire.arrivals(source, target, sent)
        return {"sent": sent, "received": arrived} if arrived == sent else None


class Rate(Packets):
    """htb lets so many bytes per second out of the sender's node."""

    name = "rate"
    what = "rate"
    settles = 0.05
    missing = "the kernel has no htb with u32"
    fix = "a kernel with CONFIG_NET_SCH_HTB and CONFIG_NET_CLS_U32"
    capability = Slow

    async def _sample(self, source: str, target: str, shape: Shape) -> int:
        """Bytes per second; a burst passes at once, so what is sent is much more than that."""
        size = max(int(shape.rate * PROOF), 16_000)
        arrived, seconds = await self.wire.rate(source, target, size, 4 * size / shape.rate)
        return int(arrived / seconds)

    async def before(self, source: str, target: str, shape: Shape) -> JSON:
        return {"before": await self._sample(source, target, shape)}

    async def measure(self, source: str, target: str, shape: Shape) -> JSON:
        found = await self._sample(source, target, shape)
        if not 0 < found <= 1.25 * shape.rate:
            raise NotLanded(f"{found} bytes per second pass from {source} to {target}, not {shape.rate}")
        return {"with": found}

    async def free(self, source: str, target: str, shape: Shape) -> JSON | None:
        found = await self._sample(source, target, shape)
        return {"after": found} if found > 1.5 * shape.rate else None


class Delay(Packets):
    """netem holds packets back on their way out of the sender's node."""

    name = "delay"
    what = "delay"
    missing = "the kernel has no netem"
    fix = "modprobe sch_netem, or a kernel with CONFIG_NET_SCH_NETEM; network.latency does it for streams"
    capability = Late

    def _floor(self, shape: Shape) -> float:
        """What no packet is faster than, short of a hair."""
        return max(shape.delay - shape.jitter, 0.1 * (shape.delay + shape.jitter))

    async def before(self, source: str, target: str, shape: Shape) -> JSON:
        return {"before": round(await self.wire.trip(source, target, 1.0), 6)}

    async def measure(self, source: str, target: str, shape: Shape) -> JSON:
        found = await self.wire.trip(source, target, 3 * (shape.delay + shape.jitter) + 1)
        if not self._floor(shape) <= found < math.inf:
            raise NotLanded(f"a packet from {source} to {target} took {found:.4f} s, not {shape.delay:g} s")
        return {"with": round(found, 6)}

    async def free(self, source: str, target: str, shape: Shape) -> JSON | None:
        found = await self.wire.trip(source, target, 1.0)
        return {"after": round(found, 6)} if found < self._floor(shape) else None


class LossFace(Face):
    """The target is Lossy."""

    async def lose(self, shape: Shape) -> JSON:
        return await self.fitting(Loss).stand("lose", shape, share=shape.loss)

    async def keep(self, shape: Shape) -> JSON:
        return await self.fitting(Loss).undo(shape)


class RateFace(Face):
    """The target is Slow."""

    async def slow(self, shape: Shape) -> JSON:
        return await self.fitting(Rate).stand("slow", shape, rate=shape.rate)

    async def quicken(self, shape: Shape) -> JSON:
        return await self.fitting(Rate).undo(shape)


class DelayFace(Face):
    """The target is Late."""

    async def delay(self, shape: Shape) -> JSON:
        return await self.fitting(Delay).stand("delay", shape, delay=shape.delay, jitter=shape.jitter)

    async def hasten(self, shape: Shape) -> JSON:
        return await self.fitting(Delay).undo(shape)


Loss.face, Rate.face, Delay.face = LossFace, RateFace, DelayFace
