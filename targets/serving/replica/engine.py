"""Runs the models on a small pool of threads, so that the event loop goes on; no answer leaves it unchecked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from chaos.inside import tamper
from targets.serving import defects
from targets.serving.models import generator, ranking
from targets.serving.models.shapes import BLOCK
from targets.serving.models.weights import Array
from targets.serving.replica.loading import Loaded
from targets.serving.settings import Settings

T = TypeVar("T")

THREADS = 2
MOST_STEPS = 16  # of one job: whoever waits for a thread waits no longer than that takes
LARGEST = 1e4  # a score or logit beyond this is none of these models


class Broken(Exception):
    """The engine cannot answer: what it computed, or computes with, is wrong."""


class Changed(Broken):
    """Weights in memory are not those that were loaded."""


class Work:
    """What the engine has computed for somebody."""

    def __init__(self) -> None:
        self.tokens = 0


class Engine:
    """The real models; also what `/correct` asks."""

    def __init__(self, settings: Settings, replica: str) -> None:
        self._replica, self._blocks = replica, settings.kv_blocks
        self._scrubs = not defects.active(settings, defects.CORRECT_NOT_RUN)
        self._checks = not defects.active(settings, defects.NUMBERS_NOT_CHECKED)
        torch.set_num_threads(1)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="engine")
        self.cache = generator.pool(settings.kv_blocks + 1)  # one more, for known prompts

    async def rank(
        self, loaded: Loaded, tier: str, items: Sequence[int], features: Mapping[str, Array | None]
    ) -> list[float]:
        """Scores; raises Broken."""
        if tier == "static":
            return [loaded.static[item] for item in items]
        return await self._run(lambda: self._rank(loaded, tier, items, features))

    async def feed(
        self, loaded: Loaded, blocks: Sequence[int], position: int, tokens: Sequence[int], work: Work | None = None
    ) -> int:
        """Compute `tokens` from `position` on; what comes after the last one. Counted in `work`. Raises Broken."""
        assert tokens
        table = torch.tensor(blocks)
        answer = 0
        for first in range(0, len(tokens), MOST_STEPS):
            part = tokens[first : first + MOST_STEPS]
            answer = await self._run(partial(self._feed, loaded, table, position + first, part))
            if work is not None:
                work.tokens += len(part)
        return answer

    async def answers(self) -> None:
        """Returns once a thread of the pool has."""
        await self._run(lambda: None)

    def close(self) -> None:
        """Wait for nothing."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _run(self, job: Callable[[], T]) -> T:
        running = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(self._pool, job))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # A thread cannot be stopped. Until it has ended, nobody gives its blocks to another session.
            await asyncio.wait({running})
            raise

    def _rank(
        self, loaded: Loaded, tier: str, items: Sequence[int], features: Mapping[str, Array | None]
    ) -> list[float]:
        weights = self._weights(loaded, tier)
        with torch.inference_mode():
            scores: list[float] = ranking.score(
                tier, weights, torch.tensor(items), features, self._offer(tier)
            ).tolist()
        if self._checks and not all(-LARGEST < score < LARGEST for score in scores):
            raise Broken("a score that is no number, or out of all proportion")
        return scores

    def _feed(self, loaded: Loaded, blocks: Tensor, position: int, tokens: Sequence[int]) -> int:
        weights = self._weights(loaded, "generator")
        logits = None
        with torch.inference_mode():
            for token in tokens:
                logits = generator.step(weights, self.cache, blocks, position, token, self._offer("generator"))
                position += 1
            assert logits is not None
            best = int(logits.argmax())
            if self._checks and not bool((logits.abs() < LARGEST).all()):
                raise Broken("a logit that is no number, or out of all proportion")
        return best

    def _weights(self, loaded: Loaded, model: str) -> Mapping[str, Tensor]:
        weights = loaded.models[model]
        for name, tensor in weights.items():
            tamper("weight", tensor, replica=self._replica, model=model, name=name)
        if self._scrubs and not loaded.intact(model):
            raise Changed(f"the weights of {model} have changed in memory")
        return weights

    def _offer(self, model: str) -> Callable[[str, Tensor], None]:
        def offer(layer: str, output: Tensor) -> None:
            tamper("activation", output, replica=self._replica, model=model, layer=layer)

        return offer

    def known_block(self) -> list[int]:
        """Room for a short known prompt."""
        return [self._blocks]


def blocks_for(tokens: int) -> int:
    """How many blocks hold that many tokens."""
    return -(-tokens // BLOCK)
