"""The frames of `wire` for tasks: `AsyncLine` (a connection) and `AsyncCaller` (request and reply, retried)."""

from __future__ import annotations

import itertools
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from targets.trainer.settings import Address
from targets.trainer.wire import LENGTH, Budget, Frame, Refused, Tries, decode_header, encode, header_length

BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead, anyio.EndOfStream)
"""What a connection raises once it is of no more use."""


class AsyncLine:
    """A connection. Frames may be sent from several tasks; one task receives."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._reader, self._sending = stream, BufferedByteReceiveStream(stream), anyio.Lock()

    async def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send one frame; one of BROKEN when the connection has gone."""
        async with self._sending:
            await self._stream.send(encode(header, body))

    async def receive(self) -> Frame:
        """The next frame; one of BROKEN at the end of the stream. Of no more use once cancelled."""
        text = await self._reader.receive_exactly(header_length(await self._reader.receive_exactly(LENGTH.size)))
        header, size = decode_header(text)
        return Frame(header, await self._reader.receive_exactly(size) if size else b"")

    async def close(self) -> None:
        """Close without waiting for the peer."""
        await anyio.aclose_forcefully(self._stream)


class AsyncCaller:
    """Calls to one service, as `wire.Caller`. Each call has a connection of its own, so none waits for another."""

    def __init__(self, address: Address, member: str, *, try_timeout: float = 1.0) -> None:
        self._address, self._member, self._try_timeout = address, member, try_timeout
        self._ids = itertools.count(1)

    async def call(
        self, op: str, *, body: bytes = b"", deadline: float = 20.0, budget: Budget | None = None, **fields: Any
    ) -> Frame:
        """The reply; raises Refused when it says `ok: false`, Unreachable after `deadline` seconds, or once the budget
        that is given instead is spent.
        """
        header = {"op": op, "id": next(self._ids), "member": self._member, **fields}
        tries = Tries(op, self._address, budget or Budget(deadline, clock=anyio.current_time))
        while True:
            try:
                with anyio.fail_after(tries.timeout(self._try_timeout)):
                    reply = await self._try(header, body)
            except (*BROKEN, Refused) as error:  # a TimeoutError is an OSError
                await anyio.sleep(tries.again(error))
            else:
                tries.answered()
                return reply

    async def _try(self, header: dict[str, Any], body: bytes) -> Frame:
        line = AsyncLine(await anyio.connect_tcp(*self._address))
        try:
            await line.send(header, body)
            reply = await line.receive()
        finally:
            await line.close()
        if not reply["ok"]:
            raise Refused({"op": header["op"], **reply.header})
        return reply
