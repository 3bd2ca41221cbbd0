"""The decision for a terminal: every path on a line, the worst last; then what would open the gate."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING

from chaos.clean import clean
from chaos.gate.decision import Decision, Ruling, State, Verdict, WaiverUse
from chaos.units import counted

if TYPE_CHECKING:
    from rich.table import Table

_STYLES = {
    State.PROVED: "green",
    State.WARNED: "yellow",
    State.WAIVED: "yellow",
    State.BLOCKED: "bold red",
    Verdict.OPEN: "bold green",
    Verdict.BLOCKED: "bold red",
    Verdict.NO_DATA: "bold yellow",
}


def text(decision: Decision, *, width: int | None, color: bool, quiet: bool = False) -> str:
    """The whole of it. Without a `width`, nothing is wrapped; commands never are, so that they can be copied."""
    from rich.console import Console
    from rich.text import Text

    page = StringIO()
    console = Console(file=page, width=width or 100_000, no_color=not color, force_terminal=color, highlight=False)

    def line(words: str) -> None:
        console.print(Text(clean(words)), soft_wrap=True)

    title = f"GATE {decision.verdict.value.upper()}"
    console.print(Text.assemble((title, _STYLES[decision.verdict]), f": {clean(decision.headline)}"), soft_wrap=True)
    if not quiet:
        console.print()
        console.print(_table(decision))
    for words in () if quiet else (*_since(decision), *map(waiver_line, decision.waivers)):
        line(words)
    if decision.commands:
        console.print("\nWhat commands can do:" if left(decision) else "\nTo open it:")
        for command in decision.commands:
            console.print(Text(f"  {clean(command)}"), soft_wrap=True)
    if decision.commands and left(decision):
        line(f"What they cannot: {', '.join(ruling.title for ruling in left(decision))}")
    return "\n".join(part.rstrip() for part in page.getvalue().split("\n"))


def left(decision: Decision) -> list[Ruling]:
    """What blocks and no command clears."""
    return [ruling for ruling in decision.blocked if not ruling.commands]


def waiver_line(use: WaiverUse) -> str:
    """A waiver, and what became of it."""
    days = f"{counted(use.days, 'day')} left" if use.days > 0 else f"ended with {use.waiver.until}"
    detail = f"; {use.detail}" if use.detail else ""
    return f"waiver {use.use}: {use.waiver.path} ({use.waiver.owner}, {days}{detail}): {use.waiver.reason}"


def proof(ruling: Ruling) -> str:
    """What a proved path rests on."""
    figures = [f"{name} p95 {spread.p95:.3g} (to {spread.high:.3g})" for name, spread in ruling.figures.items()]
    return ", ".join([counted(len(ruling.runs), "run"), *figures])


def _table(decision: Decision) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for fixed in (True, True, True, False):
        grid.add_column(no_wrap=fixed, overflow="fold")
    for ruling in reversed(decision.rulings):
        for row in _rows(ruling):
            grid.add_row(
                Text(row[0], _STYLES[ruling.state] if row[0] else ""), *(Text(clean(cell)) for cell in row[1:])
            )
    return grid


def _rows(ruling: Ruling) -> Iterator[tuple[str, ...]]:
    state, title = ruling.state.value.upper(), ruling.title
    place = f" ({ruling.where})" if ruling.where else ""
    if ruling.why is None:
        yield state, title, "", proof(ruling)
    elif ruling.why.reason == "new":  # which says the place
        yield state, title, ruling.why.reason, ruling.why.detail
    else:
        yield state, title, ruling.why.reason, ruling.why.detail + place
    for note in ruling.notes:
        yield "", "", note.reason, note.detail
    # Commands stand below the table, where they are not cut into columns and each is said once.
    if ruling.state is State.BLOCKED and ruling.advice:
        yield "", "", "→", ruling.advice


def _since(decision: Decision) -> Iterator[str]:
    if decision.appeared is not None:
        yield f"since the last release appeared: {', '.join(decision.appeared) or 'nothing'}"
        yield f"since the last release vanished: {', '.join(decision.vanished or ()) or 'nothing'}"
