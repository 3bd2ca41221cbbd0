"""Waivers: a path may stay unproved until a day, in somebody's name; nothing covers a record that was changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from difflib import get_close_matches

import msgspec

from chaos.gate.catalogue import Waiver
from chaos.gate.decision import Finding, Ruling, State, WaiverUse
from chaos.gate.question import Question


def waived(ruling: Ruling, question: Question) -> Ruling:
    """The ruling of a blocked path as its waiver leaves it."""
    waiver = next((w for w in question.catalogue.waivers if w.path == ruling.title), None)
    if waiver is None or ruling.kind != "path" or ruling.state is not State.BLOCKED:
        return ruling
    if ruling.why is not None and ruling.why.reason == "edited":
        return ruling
    if days_left(waiver, question.now) > 0:
        return msgspec.structs.replace(ruling, state=State.WAIVED, waiver=waiver)
    expired = Finding("waiver-expired", f"{waiver.owner}'s waiver ended with {waiver.until}: {waiver.reason}")
    notes = (ruling.why, *ruling.notes) if ruling.why else ruling.notes
    return msgspec.structs.replace(ruling, why=expired, notes=notes, waiver=waiver)


def days_left(waiver: Waiver, now: float) -> int:
    """The last day counted; 0 or less where it has ended. Days are those of UTC, for all machines alike."""
    return (waiver.until - datetime.fromtimestamp(now, UTC).date()).days + 1


def uses(rulings: Sequence[Ruling], question: Question) -> tuple[WaiverUse, ...]:
    """What became of each waiver, in the catalogue's order."""
    paths = {ruling.title: ruling for ruling in rulings if ruling.kind == "path"}
    return tuple(_use(waiver, paths, question.now) for waiver in question.catalogue.waivers)


def _use(waiver: Waiver, paths: dict[str, Ruling], now: float) -> WaiverUse:
    days, ruling = days_left(waiver, now), paths.get(waiver.path)
    if ruling is None:
        near = get_close_matches(waiver.path, paths, n=1)
        detail = "there is no such path" + (f"; did you mean {near[0]}?" if near else "")
        return WaiverUse(waiver=waiver, use="unused", days=days, detail=detail)
    if days <= 0:
        needed = ruling.state is State.BLOCKED
        return WaiverUse(waiver=waiver, use="expired", days=days, detail="" if needed else "not needed any more")
    if ruling.state is State.WAIVED:
        return WaiverUse(waiver=waiver, use="used", days=days)
    detail = "the path is proved without it" if ruling.state is State.PROVED else "it does not cover an edited record"
    return WaiverUse(waiver=waiver, use="unused", days=days, detail=detail)
