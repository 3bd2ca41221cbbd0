"""The decision as Markdown, for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from chaos.clean import clean
from chaos.gate.decision import Decision, Ruling, State, Verdict
from chaos.gate.text import left, proof
from chaos.units import counted

_MARKS = {Verdict.OPEN: "✅", Verdict.BLOCKED: "❌", Verdict.NO_DATA: "⚠️"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_LONGEST = 60_000  # characters; what hosts of comments take


def encode(decision: Decision) -> bytes:
    """The text; nothing in it that a run or a file said is taken for markup."""
    text = "\n".join(_lines(decision)) + "\n"
    if len(text) > _LONGEST:
        text = text[:_LONGEST].rsplit("\n", 1)[0] + "\n\n… and more: see the log.\n"
    return text.encode()


def _lines(decision: Decision) -> Iterator[str]:
    verdict = decision.verdict
    yield f"### {_MARKS[verdict]} Recovery gate {verdict.value}: {escape(decision.headline)}"
    yield from _since(decision)
    if decision.blocked:
        yield "\n| blocked | reason | detail | where |\n|---|---|---|---|"
        for ruling in decision.blocked:
            yield _row(ruling)
    if decision.commands:
        yield "\n**What commands can do:**" if left(decision) else "\n**To open it:**"
        yield "```sh\n" + "\n".join(clean(command) for command in decision.commands) + "\n```"
    for ruling in left(decision):
        if ruling.advice:
            yield f"- {escape(ruling.title)}: {escape(ruling.advice)}"
    if decision.waivers:
        yield "\n| waiver | owner | until | days left | state | reason |\n|---|---|---|---|---|---|"
        for use in decision.waivers:
            w, state = use.waiver, f"{use.use}; {use.detail}" if use.detail else use.use
            cells = (w.path, w.owner, w.until, max(use.days, 0), state, w.reason)
            yield "| " + " | ".join(map(escape, cells)) + " |"
    warned = [r for r in decision.rulings if r.state is State.WARNED]
    if warned:
        yield f"\n<details><summary>{counted(len(warned), 'warning')}</summary>\n"
        yield from (f"- {escape(r.where)}: {escape(r.why.detail)}" for r in warned if r.why)
        yield "\n</details>"
    proved = [r for r in decision.paths if r.state is State.PROVED]
    if proved:
        yield f"\n<details><summary>{counted(len(proved), 'path')} proved</summary>\n\n| path | proof |\n|---|---|"
        yield from (f"| {escape(r.title)} | {escape(proof(r))} |" for r in proved)
        yield "\n</details>"


def _row(ruling: Ruling) -> str:
    why = ruling.why
    notes = "".join(f"<br>{escape(note.reason)}: {escape(note.detail)}" for note in ruling.notes)
    reason, detail = (why.reason, why.detail) if why else ("", "")
    # A pipe ends a cell in code as well.
    place = clean(ruling.where or "").replace("`", "").replace("|", "\\|")
    where = f"`{place}`" if place else ""
    return f"| {escape(ruling.title)} | **{reason}** | {escape(detail)}{notes} | {where} |"


def _since(decision: Decision) -> Iterator[str]:
    if decision.appeared:
        yield f"\nAppeared since the last release: {escape(', '.join(decision.appeared))}"
    if decision.vanished:
        yield f"\nVanished since the last release: {escape(', '.join(decision.vanished))}"


def escape(text: object) -> str:
    """Text that stays text in Markdown, a table's cell included; an `@name` there calls nobody."""
    return _SPECIAL.sub(r"\\\1", clean(text)).replace("@", "@\u200b")
