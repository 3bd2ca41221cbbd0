"""A process beside Locust that compares answers with the golden model: neither delays the other's clock.

Reads one answer a line from the socket whose number is its argument, writes one `Finding` a line, in that order;
the first line it writes says whether there is a golden model. Ends with its other end.
"""

from __future__ import annotations

import socket
import sys
import traceback

import msgspec

from targets.serving.load.golden import LIVE, Golden, Model, gap, same
from targets.serving.load.tally import Tally
from targets.serving.settings import FEATURES, TIERS, Settings


class Scores(msgspec.Struct, frozen=True, kw_only=True, tag="scores"):
    """An answer to a ranking."""

    generation: int
    tier: str
    user: int
    items: tuple[int, ...]
    features: dict[str, str]
    scores: list[float] | None  # None: what came were no numbers


class Tokens(msgspec.Struct, frozen=True, kw_only=True, tag="tokens"):
    """An answer to a turn, or what there is of it; `generations` are those that answered the turns up to this one."""

    generations: tuple[int, ...]
    prompts: tuple[tuple[int, ...], ...]
    tally: Tally
    whole: bool


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What came out. `right` None: it cannot be compared."""

    right: bool | None = None
    gap: float | None = None
    reason: str = ""


def judge(golden: Golden, answer: Scores | Tokens) -> Finding:
    """One answer against the golden model."""
    return _scores(golden, answer) if isinstance(answer, Scores) else _tokens(golden, answer)


def _scores(golden: Golden, answer: Scores) -> Finding:
    if not _tells(answer):
        return Finding(right=False, reason="it does not tell what it was computed from")
    right = golden.scores(answer.generation, answer.tier, answer.user, answer.items, answer.features)
    if answer.scores is None or not same(answer.scores, right):
        return Finding(right=False)
    if answer.tier == "primary" and answer.features == LIVE:
        return Finding(right=True)
    primary = golden.scores(answer.generation, "primary", answer.user, answer.items, LIVE)
    return Finding(right=True, gap=gap(answer.scores, primary))


def _tells(answer: Scores) -> bool:
    """Whether there is such an answer: a lower tier tells of the features only that it has used."""
    used = answer.features.keys()
    whole = used == set(FEATURES) if answer.tier == "primary" else used <= set(FEATURES)
    return answer.generation >= 1 and answer.tier in TIERS and whole


def _tokens(golden: Golden, answer: Tokens) -> Finding:
    if len(set(answer.generations)) != 1:
        return Finding(reason="the turns of this session were answered by several generations")
    right = list(golden.tokens(answer.generations[0], answer.prompts, answer.tally.wanted))
    if not answer.tally.agrees(right):
        return Finding(right=False)
    return Finding(right=True if answer.whole else None)  # what is cut off may be right so far; it is no answer


def said(line: bytes) -> str:
    """Why there is nothing to compare with, from the first line; empty where there is."""
    return msgspec.json.decode(line, type=Finding).reason


def warm(golden: Golden, settings: Settings) -> None:
    """Compute one answer of each kind, so that the first real one does not wait for weights and libraries."""
    for tier in TIERS:
        golden.scores(1, tier, 0, (0, 1), LIVE)
    if settings.streams > 0:
        golden.tokens(1, ((0,),), 1)


def main(number: int) -> None:
    stream = socket.socket(fileno=number)
    decoder = msgspec.json.Decoder(Scores | Tokens)
    try:
        settings = Settings.from_environment()
        golden: Golden = Model(settings)
        warm(golden, settings)
        missing = ""
    except ImportError as error:
        missing = f"no golden model: {error}"
    stream.sendall(msgspec.json.encode(Finding(reason=missing)) + b"\n")
    for line in stream.makefile("rb"):
        try:
            found = Finding(reason=missing) if missing else judge(golden, decoder.decode(line))
        except Exception as error:  # an answer that nobody can read the golden one for; the load goes on
            traceback.print_exc()
            found = Finding(reason=f"{type(error).__name__}: {error}")
        stream.sendall(msgspec.json.encode(found) + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
