"""The text at the end of a run: the verdict and why, the recovery beside its contract, the checks, where to look."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from chaos.history import History
from chaos.report.contract import Figure, amount, measured, ordered, rpo, rto
from chaos.report.junit import quote
from chaos.report.lines import clean, names, number, seconds, shorten
from chaos.result import Check, Kind, Need, Recovery, Result, Series
from chaos.units import counted
from chaos.verdict import Outcome

_BAR = 24  # characters
_OTHERS = 6  # episodes told beside the worst
_COLORS = {Outcome.PASS: "32", Outcome.FAIL: "31", Outcome.UNKNOWN: "33"}
_WORDS = {Outcome.PASS: "PASS", Outcome.FAIL: "FAIL", Outcome.UNKNOWN: "UNKNOWN"}

_HINTS = {
    Kind.RUN: "the run did not get to its end: read the last events of the journal and the members' logs",
    Kind.HYPOTHESIS: "no data, or not steady before the fault: run the same experiment with `method: []`",
    Kind.FAULT: "the fault did not land: `chaos doctor` says what this machine can do, the journal what failed",
    Kind.BUDGET: "the recovery could not be measured: look at which of its events is missing",
    Kind.INVARIANT: "nothing to judge: the run never came to what this promise is about, or the target does not tell",
}


def hint(check: Check) -> str:
    """What a check that could not be judged asks for."""
    if check.kind is Kind.FAULT and check.verdict.reason.startswith("was never injected"):
        return "its trigger did not fire: have it fire earlier (`when:`), or the job go on for longer"
    return _HINTS[check.kind]


def summary(
    result: Result,
    history: History,
    *,
    files: Mapping[str, Path] | None = None,
    width: int = 120,
    color: bool = False,
) -> str:
    """The whole text. `files`: where things are, by what they are (`report`, `junit`, `journal`, `logs`)."""
    blocks = (
        _verdict(result, color),
        _recovery(result),
        list(_checks(result, width, color)),
        list(_next(result, history)),
        [f"{name:<8} {path}" for name, path in (files or {}).items()],
    )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def series_summary(series: Series, *, color: bool = False) -> str:
    """The text for repeats of one experiment: pass rate with its interval, figures over the runs, budgets."""
    rate, low, high = (f"{share * 100:.0f} %" for share in series.rate)
    lines = [
        _headline(series.outcome, series.headline, color),
        f"{clean(series.experiment)}: {series.passes} of {counted(series.runs, 'run')} passed, {rate} (95 %: {low} to "
        f"{high})",
    ]
    if series.spreads:
        lines += ["", f"{'':<14}{'median':>12}{'p95':>12}{'max':>12}   95 % interval of p95"]
    for name, spread in series.spreads.items():
        unit = "s" if name.startswith("rto") or name.endswith("seconds") else name.rpartition(".")[2]
        median, p95, most, low, high = (
            amount(v, unit) for v in (spread.median, spread.p95, spread.maximum, spread.low, spread.high)
        )
        lines.append(f"{clean(name):<14}{median:>12}{p95:>12}{most:>12}   {low} to {high}")
    if series.checks:
        lines += ["", *_table(series.checks, 100, color)]
    return "\n".join(lines) + "\n"


def _headline(outcome: Outcome, why: str, color: bool) -> str:
    return f"VERDICT {_painted(outcome, color)}: {clean(why)}"


def _painted(outcome: Outcome, color: bool, width: int = 0) -> str:
    word = _WORDS[outcome].ljust(width)
    return f"\x1b[1;{_COLORS[outcome]}m{word}\x1b[0m" if color else word


def _verdict(result: Result, color: bool) -> list[str]:
    about = [clean(result.title or result.experiment), f"seed {number(result.seed)}", seconds(result.seconds)]
    return [_headline(result.outcome, result.headline, color), " · ".join(about)]


def _recovery(result: Result) -> list[str]:
    worst = result.worst
    lines = _contract(result, worst) if worst else []
    others = [r for r in result.recoveries if r is not worst]
    lines += [f"Also {episode(r)}" for r in others[:_OTHERS]]
    if len(others) > _OTHERS:
        lines.append(f"and {counted(len(others) - _OTHERS, 'more episode')}")
    return lines + [line for line in [_efficiency(result)] if line]


def _contract(result: Result, recovery: Recovery) -> list[str]:
    lost = f"lost {counted(number(recovery.lost_member_seconds), 'member-second')}"
    work = (
        f"  resume   {seconds(recovery.resume)} · catch-up {seconds(recovery.catch_up)} · {lost}",
        "  RPO      " + " · ".join(map(str, rpo(result, recovery))),
    )
    return [
        f"Recovery {'after' if recovery.faults else 'that no fault explains'} {story(recovery)}",
        *(f"  {f.label:<8} {f!s:<18} {_bar(f)}".rstrip() for f in rto(result, recovery)),
        *(() if recovery.serving else work),
        *([f"  {clean(recovery.note)}"] if recovery.note else []),
    ]


def episode(recovery: Recovery) -> str:
    """An episode and its figures on one line."""
    if recovery.need is Need.NONE:
        return f"{' and '.join(map(clean, recovery.faults))} landed and needed no recovery"
    lost = "" if recovery.serving else f", {amount(recovery.lost_steps, 'steps')} lost"
    figures = f"{seconds(recovery.total)}{lost}"
    return f"{recovery.need.value} at {recovery.began:.1f} s: {story(recovery)}: {figures}"


def story(recovery: Recovery) -> str:
    """What happened in an episode, in half a line."""
    before, after = map(number, recovery.world)
    group = (
        f"({before} → {counted(after, 'rank')}, epoch {number(recovery.epoch)}, generation "
        f"{number(recovery.generation)})"
    )
    parts = [
        " and ".join(map(clean, recovery.faults)),
        f"on {names(recovery.members)}" if recovery.members else "",
        "" if recovery.serving else group,
        "" if recovery.complete else f"– {_unfinished(recovery)}",
    ]
    return " ".join(filter(None, parts))


def _unfinished(recovery: Recovery) -> str:
    return "it ended the target" if "ended" in recovery.evidence else "not over when the run ended"


def _efficiency(result: Result) -> str:
    e = result.efficiency
    shares = (("goodput", e.goodput), ("ETTR", e.ettr))
    parts = [f"{name} {share * 100:.0f} %" for name, share in shares if share is not None]
    steps = (("lasting", e.lasting_steps), ("repeated", e.repeated_steps))
    return " · ".join(parts + [counted(count, f"{name} step") for name, count in steps if count is not None])


def _bar(figure: Figure) -> str:
    """The share of the budget that is spent; a budget that is broken runs over its end."""
    if figure.limit is None or figure.value is None:
        return ""
    full = min(_BAR, round(figure.share * _BAR)) or int(figure.value > 0)
    return "█" * full + "·" * (_BAR - full) + (f"▶ {figure.share * 100:.0f} %" if figure.share > 1 else "")


def _checks(result: Result, width: int, color: bool) -> Iterator[str]:
    counts = {o: sum(c.verdict.outcome is o for c in result.checks) for o in Outcome}
    yield "Checks: " + ", ".join(f"{n} {o.value}" for o, n in counts.items() if n or o is Outcome.PASS)
    yield from _table(tuple(ordered(result)), width, color)


def _table(checks: Sequence[Check], width: int, color: bool) -> Iterator[str]:
    """A line a check; the reason of one that is not green is told in full."""
    titles = [clean(f"{c.name} {c.id}").strip() for c in checks]
    wide = min(34, max(map(len, titles), default=0))
    for check, title in zip(checks, titles, strict=True):
        verdict = check.verdict
        head = f"  {_painted(verdict.outcome, color, 8)}{check.kind.value:<11}{title:<{wide}}  "
        indent = " " * (23 + wide)
        value = f"{measured(check)}: " if measured(check) else ""
        reason, seqs = f"{value}{clean(verdict.reason)}", _numbers(verdict.evidence)
        room = max(30, width - len(indent))
        if verdict.outcome is Outcome.PASS:
            yield head + shorten(reason, room - len(seqs)) + seqs
        else:
            yield head + f"\n{indent}".join(textwrap.wrap(reason + seqs, room))


def _numbers(evidence: Sequence[int]) -> str:
    more = f" +{len(evidence) - 3}" if len(evidence) > 3 else ""
    return f"  [{' '.join(f'#{seq}' for seq in evidence[:3])}{more}]" if evidence else ""


def _next(result: Result, history: History) -> Iterator[str]:
    """What to look at: the evidence of the first check that failed, a hint a kind that could not be judged."""
    for line in result.undo:
        yield f"Undo by hand: {clean(line)}"
    if result.outcome is Outcome.PASS:
        return
    checks = tuple(ordered(result))
    if any(check.verdict.outcome is not Outcome.PASS for check in checks):
        yield "Look at"
    for check in checks[:3]:
        if check.verdict.outcome is not Outcome.PASS:
            yield f"  {clean(check.name)}: {clean(check.verdict.reason)}"
            yield from (f"    {line}" for line in quote(history, check.verdict.evidence, 5))
    for line in dict.fromkeys(hint(c) for c in checks if c.verdict.outcome is Outcome.UNKNOWN):
        yield f"  {line}"
    if hung := history.last("target.hung"):
        yield f"  stacks of {names(hung.get('alive'))} are in the logs"
