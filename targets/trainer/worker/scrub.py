"""Whether memory still holds what the last step left there."""

from __future__ import annotations

import zlib
from typing import Any

from chaos.inside import tamper
from targets.trainer.worker.instruments import as_bytes
from targets.trainer.worker.state import TrainState, shard

SITES = {"model": "weight", "optimizer": "moment"}


class Scrub:
    """A checksum over this rank's own part of weights and moments, taken after a step and compared before the next.

    It sees what nobody wrote, whatever its size. It does not see a value that was computed wrongly.
    """

    def __init__(self, state: TrainState) -> None:
        self._state = state
        self._known: int | None = None

    def take(self) -> None:
        """What memory holds now is right."""
        self._known = self._checksum()

    def rotten(self, **where: Any) -> bool:
        """Whether memory holds something else; where nothing was taken yet, nobody knows."""
        for name, tensor in self._state.tensors(SITES).items():
            tamper(SITES[name.partition(".")[0]], shard(tensor), name=name.partition(".")[2], **where)
        return self._known is not None and self._known != self._checksum()

    def _checksum(self) -> int:
        crc = 0
        for tensor in self._state.tensors(SITES).values():
            crc = zlib.crc32(as_bytes(shard(tensor)), crc)
        return crc
