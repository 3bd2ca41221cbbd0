"""What is read off the model while it computes: each rank's own gradient before it is reduced, and how long its own
part takes. Also the sites at which faults may be armed.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from chaos.inside import tamper
from targets.trainer.worker.model import Block, Sharded


class Instruments:
    """Attached to a model once; `begin` before each pass, then read."""

    def __init__(self, model: Sharded) -> None:
        self._where: dict[str, Any] = {}
        self._crc = 0
        self._squares: dict[str, float] = {}
        self._began = 0.0
        self.seconds = 0.0  # of this rank's own computation: nothing in it waits for a peer
        self._attach(model)

    def begin(self, **where: Any) -> None:
        """A pass begins; `where` is told with every hit of a fault in it."""
        self._where, self._crc, self.seconds = where, 0, 0.0
        self._squares.clear()

    @property
    def norm(self) -> float:
        """Of the gradient that this rank computed, before it was reduced."""
        return math.sqrt(sum(self._squares.values()))

    def digest(self, loss: float) -> int:
        """Of that gradient and of `loss`: less than 2**48, so that a float holds it."""
        return self._crc << 16 | zlib.crc32(repr(loss).encode()) & 0xFFFF

    def _attach(self, model: Sharded) -> None:
        parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
        for part in parts:
            part.unshard()
        for name, parameter in model.named_parameters():  # the whole ones: FSDP keeps these objects for good
            parameter.register_post_accumulate_grad_hook(self._gradient(name))  # type: ignore[no-untyped-call]
        for part in parts:
            part.reshard()
        for layer, block in enumerate(model.blocks):
            assert isinstance(block, Block)
            block.register_forward_hook(self._activation(layer))
            self._time(block.norm_attention, block.down, block.qkv)
        model.head.register_forward_hook(self._activation("head"))
        self._time(model.norm, model.head)  # not backward: FSDP fetches the last block meanwhile

    def _gradient(self, name: str) -> Callable[[Tensor], None]:
        seed = zlib.crc32(name.encode())

        def take(parameter: Tensor) -> None:
            gradient = parameter.grad
            assert gradient is not None
            tamper("gradient", gradient, name=name, **self._where)
            # Their sum does not depend on the order in which gradients come.
            self._crc = (self._crc + zlib.crc32(as_bytes(gradient), seed)) & 0xFFFFFFFF
            self._squares[name] = float(torch.linalg.vector_norm(gradient, dtype=torch.float64)) ** 2

        return take

    def _activation(self, layer: int | str) -> Callable[[nn.Module, Any, Tensor], None]:
        def offer(module: nn.Module, arguments: Any, output: Tensor) -> None:
            tamper("activation", output, layer=layer, **self._where)

        return offer

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count what is done here as this rank's own computation."""
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began

    def _time(self, first: nn.Module, last: nn.Module, again: nn.Module | None = None) -> None:
        """Time what lies between two collectives: the operations from `first` to `last`, and backward from there to
        `again`.
        """

        def start(*_: Any) -> None:
            self._began = time.perf_counter()

        def stop(*_: Any) -> None:
            self.seconds += time.perf_counter() - self._began

        def forward_ends(module: nn.Module, arguments: Any, output: Tensor) -> None:
            stop()
            if again is not None and output.requires_grad:
                output.register_hook(start)  # type: ignore[no-untyped-call]

        def backward_ends(module: nn.Module, arguments: Any, output: Tensor) -> None:
            if output.requires_grad:
                output.register_hook(stop)  # type: ignore[no-untyped-call]

        first.register_forward_pre_hook(start)
        last.register_forward_hook(forward_ends)
        if again is not None:
            again.register_forward_hook(backward_ends)


def as_bytes(tensor: Tensor) -> Any:
    """The bytes of a tensor as a buffer; no copy where it lies in main memory."""
    return tensor.detach().cpu().contiguous().numpy()
