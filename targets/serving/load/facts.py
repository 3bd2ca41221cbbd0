"""A request and what came back as the facts `request.sent` and `request.completed`, and whether it failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from targets.serving.load.asks import Ask, Ranking, Turn
from targets.serving.load.checker import Finding, Scores, Tokens
from targets.serving.load.client import Reply, finite

_OF_ANSWERS = ("replica", "tier", "features", "generation", "digest", "resumed", "recomputed")


def sent(ask: Ask) -> dict[str, Any]:
    """Told at its intended start."""
    return _who(ask) | ({"prompt": len(ask.prompt)} if isinstance(ask, Turn) else {})


def completed(ask: Ask, reply: Reply, latency: float) -> dict[str, Any]:
    """All but what the golden model says."""
    data = _who(ask) | {"status": reply.status, "latency": round(latency, 6), "attempts": reply.attempts}
    if reply.error:
        data["error"] = reply.error
    data |= {name: reply.body[name] for name in _OF_ANSWERS if name in reply.body}
    data["right"] = False if ask.mistake and reply.status == 200 else None  # there is no right answer to a mistake
    if (tally := reply.tally) is not None and not ask.mistake:
        if tally.tokens or reply.status == 200:
            tally.end()
        data |= {
            "first": tally.first, "tokens": len(tally.tokens), "wanted": tally.wanted, "missing": tally.missing,
            "repeated": tally.repeated, "gap": tally.gap,
        }  # fmt: skip
    return data


def to_compare(ask: Ask, reply: Reply, generations: tuple[int, ...]) -> Scores | Tokens | None:
    """What the golden model is asked about; None where nothing came that could be compared.

    `generations`: those that answered the turns of this session before this one.
    """
    body = reply.body
    if ask.mistake:
        return None
    if isinstance(ask, Ranking):
        if reply.status != 200:
            return None
        features = body.get("features")
        return Scores(
            generation=_number(body.get("generation")), tier=str(body.get("tier")), user=ask.user, items=ask.items,
            features={str(k): str(v) for k, v in features.items()} if isinstance(features, dict) else {},
            scores=finite(body.get("scores")),
        )  # fmt: skip
    if not isinstance(ask, Turn) or reply.tally is None or not reply.tally.tokens:
        return None
    # A stream that broke off does not say which generation it was: if not the one of the turns before, nobody knows.
    here = (_number(body["generation"]),) if "generation" in body else generations[-1:]
    return Tokens(
        generations=(*generations, *here), prompts=ask.prompts[: ask.turn + 1], tally=reply.tally,
        whole=reply.status == 200,
    )  # fmt: skip


def compared(data: dict[str, Any], found: Finding) -> dict[str, Any]:
    """With what the golden model says."""
    data["right"] = found.right
    if found.gap is not None:
        data["gap_to_primary"] = found.gap
    return data


def failure(data: Mapping[str, Any]) -> str:
    """Why Locust counts this `request.completed` as a failure; empty where it does not."""
    meant = 400 if data.get("wrong") else 200
    if data["status"] != meant:
        return str(data.get("error") or f"status {data['status']}")
    if data["right"] is False:
        return "wrong answer"
    return "broken stream" if data.get("missing") or data.get("repeated") else ""


def _who(ask: Ask) -> dict[str, Any]:
    what = "rank" if isinstance(ask, Ranking) else "generate"
    data: dict[str, Any] = {"id": ask.id, "what": what, "priority": ask.priority, "deadline": ask.deadline}
    if isinstance(ask, Turn):
        data |= {"session": ask.session, "turn": ask.turn}
    return data | {"wrong": bool(ask.mistake)}


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1
