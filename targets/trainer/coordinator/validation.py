"""Whether a state is fit to be saved, or to be trained on: by the loss of a fixed batch, the canary.

Every rank computes it from the same weights and the same samples, so all must come to the same number to the last bit:
one that does not has a device or a copy of the weights that is wrong. What it cannot see: moments, and weights that the
batch does not touch.
"""

from __future__ import annotations

import math
from collections import Counter

from targets.trainer import defects
from targets.trainer.coordinator.crew import Crew, Group
from targets.trainer.coordinator.failure import Failure
from targets.trainer.wire import Frame

TOLERANCE = 1e-4  # of the canary's loss: between machines, sums may round otherwise


def agreed(crew: Crew, group: Group, ready: list[Frame]) -> float | None:
    """The canary's loss, on which all ranks that stand at a cut agree; raises Failure: such a state is not saved."""
    said: dict[int, float | None] = {frame["rank"]: frame.get("canary", frame.get("loss")) for frame in ready}
    if defects.active(crew.settings, defects.NAN_COMMITTED):
        return next(iter(said.values()))
    (value, count), *_ = Counter(map(repr, said.values())).most_common(1)
    if count < len(said):
        odd = min(rank for rank, loss in said.items() if repr(loss) != value)
        crew.suspicion.name(group.ranks[odd].node, group.epoch, ready[0]["step"])
        crew.fail(Failure(group.ranks[odd].member, "corruption", f"ranks do not agree on the canary: {said}"))
    loss = next(iter(said.values()))
    if loss is not None and not math.isfinite(loss):
        crew.fail(Failure("group", "corruption", f"the canary's loss is {loss}"))
    return loss


def sane(loss: float | None, saved: float | None) -> bool:
    """Whether the canary's loss of a restored state is a number, and that of the state that was saved."""
    if loss is None or not math.isfinite(loss):
        return False
    return saved is None or abs(loss - saved) <= TOLERANCE * max(abs(saved), 1.0)
