"""All dice of a day: thrown at once, from one seed, before anything runs."""

from __future__ import annotations

import random
from collections.abc import Mapping

from chaos.gameday.terms import Agenda, Draw, Piece, Plan, Turn, Uncovered

# 419 unexpected interruptions in 54 days of training Llama 3 405B on 16,384 GPUs (Dubey et al. 2024, table 5).
LLAMA3: Mapping[str, float] = {
    "faulty-gpu": 148, "hbm3-memory": 72, "software-bug": 54, "network": 35, "host-maintenance": 32, "sram-memory": 19,
    "gpu-processor": 17, "nic": 7, "nccl-watchdog": 7, "silent-data-corruption": 6, "thermal-and-sensor": 6, "ssd": 3,
    "power-supply": 3, "chassis": 2, "io-board": 2, "dependency": 2, "cpu": 2, "system-memory": 2,
}  # fmt: skip
LLAMA3_RATE = 419 / (54 * 86400.0)  # per second
MIXES: Mapping[str, tuple[Mapping[str, float], float]] = {"llama3": (LLAMA3, LLAMA3_RATE)}
_SEEDS = 2**31


def draw(plan: Plan, fresh: int) -> Agenda:
    """The agenda of a day. `fresh` is the seed where the plan gives none.

    With a ladder, experiments of a lower rung come first; within a rung the order is the plan's, or the drawn one.
    Due times stay in their order: the first due belongs to whoever is first.
    """
    if plan.draw is None:
        turns = [Turn(number=0, piece=piece, seed=piece.seed) for piece in plan.pieces]
        return Agenda(seed=fresh, turns=_in_order(turns, plan.ladder))
    seed = fresh if plan.draw.seed is None else plan.draw.seed
    turns, uncovered = _drawn(plan.draw, plan.pieces, random.Random(seed))
    total = sum(plan.draw.mix.values())
    covered = {category for category in plan.draw.mix if plan.draw.stands_for.get(category)}
    return Agenda(
        seed=seed,
        turns=_in_order(turns, plan.ladder),
        uncovered=tuple(uncovered),
        silent={c: weight / total for c, weight in plan.draw.mix.items() if c not in covered},
        never=tuple(c for c in plan.draw.mix if c in covered - {turn.category for turn in turns}),
    )


def _drawn(asked: Draw, pieces: tuple[Piece, ...], dice: random.Random) -> tuple[list[Turn], list[Uncovered]]:
    """Failures arrive by the whole mix until as many as asked for have an experiment; the others are told."""
    turns: list[Turn] = []
    uncovered: list[Uncovered] = []
    categories, weights = list(asked.mix), list(asked.mix.values())
    at = 0.0
    while len(turns) < asked.count:
        if asked.rate is not None:
            at += dice.expovariate(asked.rate) / asked.accelerate
        due = None if asked.rate is None else at
        (category,) = dice.choices(categories, weights)
        standing = asked.stands_for.get(category, ())
        if not standing:
            uncovered.append(Uncovered(category=category, due=due))
            continue
        piece = pieces[dice.choice(standing)]
        turns.append(Turn(number=0, piece=piece, seed=dice.randrange(_SEEDS), due=due, category=category))
    return turns, uncovered


def _in_order(turns: list[Turn], ladder: tuple[str, ...]) -> tuple[Turn, ...]:
    ordered = sorted(turns, key=lambda turn: ladder.index(turn.piece.rung)) if ladder else turns
    dues = [turn.due for turn in turns]
    return tuple(
        Turn(number=number, piece=turn.piece, seed=turn.seed, due=due, category=turn.category)
        for number, (turn, due) in enumerate(zip(ordered, dues, strict=True), 1)
    )
