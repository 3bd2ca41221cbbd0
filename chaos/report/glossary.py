"""The field's words that a page uses, for somebody who meets them for the first time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.history import History
from chaos.serving import serves

_RTO = "recovery time objective: how long it may take, from the fault until work goes on as before"
_BUDGET = "the most that the experiment allows; the dashed line in the bar"
_TRAINING: Mapping[str, str] = {
    "RTO": _RTO,
    "detect": "from the fault until it was declared a failure",
    "restart": "from there until the group of workers was formed again",
    "load": "until every worker had its state back from a checkpoint",
    "warm-up": "until steps were as fast again as the experiment asks, measured against the speed before the fault",
    "RPO": "recovery point objective: how much finished work may be lost, in steps, samples or seconds",
    "budget": _BUDGET,
    "generation": "a checkpoint that is whole or nothing: it counts from the moment its manifest was published, last",
    "epoch": "the number of a group of workers; each new group has a higher one, and writes with an older one must be"
    " refused",
    "fencing token": "the number that every write carries, so that a worker that was replaced cannot write any more",
    "goodput": "lasting steps a second, as a share of the speed before the first fault",
    "ETTR": "effective training time ratio: the share of the time in which steps were made that lasted",
}
_SERVING: Mapping[str, str] = {
    "RTO": _RTO + ", as clients saw it",
    "detect": "from the fault until the first broken replica was taken out; where all depend on what broke, until"
    " somebody said so",
    "budget": _BUDGET,
    "degraded": "answered, with less than the best: cached or default features, a smaller model, a fixed list",
    "deadline": "the time after which an answer is of no use to whoever asked; it counts from the intended start",
    "generation": "the published weights that an answer was computed with; only a committed one may be served",
    "fencing token": "the number that every write to the store carries, so that a replica that was replaced cannot"
    " write any more",
}
_ANY: Mapping[str, str] = {
    "steady state": "what was measured before the fault and must hold again after it",
    "unknown": "the record does not show it either way; a run with such a check is inconclusive, never green",
}


def glossary(history: History) -> Sequence[tuple[str, str]]:
    """Word and meaning, in the order in which the page uses them; those of a service, or those of training."""
    return tuple({**(_SERVING if serves(history) else _TRAINING), **_ANY}.items())
