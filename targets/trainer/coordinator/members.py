"""The coordinator's door: agents and workers connect here, and are answered, heard and given orders.

What a member says lands in `inbox` in order, but its heartbeats are counted at once, so that a leader who waits for
the store is not blind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import ByteStream, SocketAttribute, TaskStatus

from chaos.inside import emit
from targets.trainer import defects
from targets.trainer.coordinator.detector import Heartbeats
from targets.trainer.coordinator.lease import Lease
from targets.trainer.settings import Address, Settings
from targets.trainer.wire import Frame
from targets.trainer.wire_async import BROKEN, AsyncLine

ORDER_TIMEOUT = 1.0  # for an order into the buffer of a connection; a member that takes none is found by its silence


class Link:
    """A connected member."""

    def __init__(self, line: AsyncLine, hello: Frame) -> None:
        self._line = line
        self.member: str = hello["member"]
        self.node: str = hello["node"]
        self.agent = hello["op"] == "join"
        self.rank: int | None = None if self.agent else hello["rank"]
        self.epoch: int = 0 if self.agent else hello["epoch"]
        self.hears = False  # an agent that sends heartbeats has had the answer to its join: the way back is open, too

    async def say(self, header: Mapping[str, Any]) -> None:
        """Send, or do nothing where the member has gone: its closed connection tells."""
        with anyio.move_on_after(ORDER_TIMEOUT):
            try:
                await self._line.send(dict(header))
            except BROKEN:
                return

    async def close(self) -> None:
        await self._line.close()


T = TypeVar("T")


class Inbox(Generic[T]):
    """What was said, in order."""

    def __init__(self) -> None:
        self._said: deque[T] = deque()
        self._more = anyio.Event()

    def put(self, said: T) -> None:
        self._said.append(said)
        self._more.set()

    async def get(self) -> T:
        """The next one; waits for it. Nothing is lost when cancelled."""
        while not self._said:
            self._more = anyio.Event()
            await self._more.wait()
        return self._said.popleft()


class Members:
    """Those connected to a leader, under its lease. What is said of an older epoch is refused, and recorded.

    `inbox` gets (link, frame) for everything but an agent's heartbeats, of which the first becomes `op: hears`; a
    frame with `op: gone` for a connection that closed, with `current: false` where the member had already been replaced
    or dropped.
    """

    def __init__(self, settings: Settings, lease: Lease, heartbeats: Heartbeats) -> None:
        self._settings, self._lease, self._heartbeats = settings, lease, heartbeats
        self.agents: dict[str, Link] = {}  # by node
        self.workers: dict[int, Link] = {}  # by rank; of the current epoch
        self.inbox: Inbox[tuple[Link, Frame]] = Inbox()
        self.kept: set[Link] = set()  # workers of the last epoch that may go on in the next: not refused, nor heard

    async def order(self, link: Link, op: str, **fields: Any) -> None:
        """Tell a member what to do; Deposed once the lease has run out."""
        self._lease.check()
        await link.say({"op": op, "epoch": self._lease.epoch, **fields})

    async def order_workers(self, op: str, **fields: Any) -> None:
        """The same order to every worker."""
        for link in list(self.workers.values()):
            await self.order(link, op, **fields)

    def release_workers(self) -> None:
        """Expect nothing of the workers of the last epoch any more, but of those that are kept."""
        for rank, link in list(self.workers.items()):
            if link not in self.kept:
                self._heartbeats.forget(link.member)
                del self.workers[rank]

    async def regroup(self, ranks: Mapping[int, Link], **fields: Any) -> None:
        """Have those that were kept go on as these ranks of the current epoch; nobody else is kept any longer."""
        self.workers = dict(ranks)
        self.kept.clear()
        for rank, link in ranks.items():
            link.rank, link.epoch = rank, self._lease.epoch
            await self.order(link, "regroup", rank=rank, **fields)

    async def drop(self, member: str) -> Link | None:
        """Part with a member that is silent; the one who was dropped, if anyone."""
        for link in [*self.agents.values(), *self.workers.values()]:
            if link.member == member:
                self._leave(link)
                await link.close()
                return link
        return None

    async def dismiss(self) -> None:
        """Part with everyone."""
        for link in [*self.agents.values(), *self.workers.values()]:
            await link.close()

    async def serve(self, line: AsyncLine, hello: Frame) -> None:
        """Hear one connection until it ends."""
        if hello["op"] not in ("join", "hello"):
            await line.send({"ok": False, "id": hello.get("id"), "op": hello["op"], "error": "unknown"})
            return
        link = Link(line, hello)
        if not await self._admit(link, hello):
            return
        try:
            while await self._hear(link, await line.receive()):
                pass
        finally:
            current = self._leave(link)
            self.inbox.put((link, Frame({"op": "gone", "current": current})))

    async def _admit(self, link: Link, hello: Frame) -> bool:
        if link.agent:
            older = self.agents.get(link.node)
            if older is not None:
                await self.drop(older.member)
            self.agents[link.node] = link
            s = self._settings
            link.hears = defects.active(s, defects.JOINS_UNHEARD)
            await link.say(_answer(hello, ttl=s.member_ttl + s.pause, heartbeat=s.heartbeat, epoch=self._lease.epoch))
        elif link.epoch < self._lease.epoch:
            await self._refuse(link, hello)
            return False
        else:
            assert link.rank is not None
            self.workers[link.rank] = link
        self._heartbeats.watch(link.member)
        self.inbox.put((link, hello))
        return True

    async def _hear(self, link: Link, frame: Frame) -> bool:
        if not self._lease.valid:
            return False  # an answer would renew the member's lease, and this leader has none itself
        known = self._known(link)
        stale = not link.agent and frame["epoch"] < self._lease.epoch
        # A worker that was told to go on in this epoch: it said it before it heard that, or a thread of it just after.
        leftover = stale and link.epoch == self._lease.epoch
        if not known or (stale and not leftover and link not in self.kept):
            await self._refuse(link, frame)
            return False
        self._heartbeats.beat(link.member)
        if leftover:
            return True
        if frame.get("id") is not None:
            await link.say(_answer(frame))
        if link.agent and not link.hears:
            link.hears = True
            self.inbox.put((link, Frame({"op": "hears"})))
        if not (link.agent and frame["op"] == "heartbeat"):
            self.inbox.put((link, frame))
        return True

    async def _refuse(self, link: Link, frame: Frame) -> None:
        token, highest = frame.get("epoch", link.epoch), self._lease.epoch
        emit("epoch.rejected", member=link.member, token=token, highest=highest, what=frame["op"])
        await link.say(
            {"ok": False, "id": frame.get("id"), "op": frame["op"], "error": "stale-epoch", "highest": highest}
        )

    def _known(self, link: Link) -> bool:
        if link.agent:
            return self.agents.get(link.node) is link
        return link.rank is not None and self.workers.get(link.rank) is link

    def _leave(self, link: Link) -> bool:
        if not self._known(link):
            return False
        self._heartbeats.forget(link.member)
        if link.agent:
            del self.agents[link.node]
        else:
            assert link.rank is not None
            del self.workers[link.rank]
        return True


def _answer(frame: Frame, **fields: Any) -> dict[str, Any]:
    return {"ok": True, "id": frame.get("id"), "op": frame["op"], **fields}


class Door:
    """Listens for as long as the coordinator lives. Whoever comes while it does not lead is told `not-leader`."""

    def __init__(self, address: Address) -> None:
        self.address = address  # with port 0: the one it got, once it listens
        self.members: Members | None = None  # set while leading

    async def listen(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Take connections until cancelled; started once it listens."""
        async with await anyio.create_tcp_listener(
            local_host=self.address.host, local_port=self.address.port
        ) as listener:
            self.address = Address(self.address.host, listener.extra(SocketAttribute.local_port))
            task_status.started()
            await listener.serve(self._talk)

    async def _talk(self, stream: ByteStream) -> None:
        line = AsyncLine(stream)
        try:
            hello = await line.receive()
            if self.members is not None:
                await self.members.serve(line, hello)
            else:
                await line.send({"ok": False, "id": hello.get("id"), "op": hello["op"], "error": "not-leader"})
        except (*BROKEN, KeyError, TypeError):  # the peer has gone, or talks nonsense
            return
        finally:
            await line.close()
