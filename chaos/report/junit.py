"""JUnit XML as CI systems read it: one suite a run, one test case a check, the evidence quoted.

A check that could not be judged is an error, so that no CI system shows it green.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from chaos.errors import Exit
from chaos.history import Event, History
from chaos.report.contract import measured, rpo, rto
from chaos.report.lines import clean, describe, number, seconds
from chaos.result import Check, Result
from chaos.verdict import Outcome

if TYPE_CHECKING:
    from junit_xml import TestCase, TestSuite

_QUOTED = 20  # events quoted a check


def encode(runs: Iterable[tuple[Result, History]], *, numbered: bool = False) -> bytes:
    """The document for these runs; suites of repeats are `numbered` from 1. Holds one history at a time."""
    from junit_xml import to_xml_report_string

    suites = [_suite(result, history, f"#{n}" if numbered else "") for n, (result, history) in enumerate(runs, 1)]
    document: str = to_xml_report_string(suites, prettyprint=False, encoding="utf-8")
    return document.encode()


def quote(history: History, evidence: Iterable[int], most: int = _QUOTED) -> list[str]:
    """The events with these numbers as lines, `most` of them."""
    seqs = list(evidence)
    lines = [f"#{e.seq} {e.t:.3f} s {clean(e.source)}: {describe(e)}" for e in events_at(history, seqs[:most])]
    return lines + ([f"and {len(seqs) - most} more"] if len(seqs) > most else [])


def events_at(history: History, seqs: Iterable[int]) -> list[Event]:
    """The events with these numbers, as far as the history has them."""
    return [history[seq] for seq in seqs if 0 <= seq < len(history)]


def _suite(result: Result, history: History, suffix: str) -> TestSuite:
    from junit_xml import TestSuite

    name = clean(result.experiment)
    cases = [_case(name, check, history) for check in result.checks]
    cases.append(_verdict(name, result))
    started = None if result.started is None else datetime.fromtimestamp(result.started, UTC).isoformat()
    return TestSuite(name + suffix, cases, package=name, timestamp=started, properties=_properties(result))


def _case(experiment: str, check: Check, history: History) -> TestCase:
    from junit_xml import TestCase

    name = f"{check.id} {check.name}".strip()
    case = TestCase(clean(name), classname=f"{experiment}.{check.kind.value}")
    lines = [clean(check.verdict.reason), clean(measured(check)), *quote(history, check.verdict.evidence)]
    _judge(case, check.verdict.outcome, check.verdict.reason, "\n".join(filter(None, lines)))
    return case


def _verdict(experiment: str, result: Result) -> TestCase:
    """The run as a whole: red whenever the exit code is not 0, even where no check says why."""
    from junit_xml import TestCase

    outcome = result.outcome
    if outcome is Outcome.PASS and result.exit is not Exit.PASS:
        outcome = Outcome.UNKNOWN
    case = TestCase("verdict", classname=experiment, elapsed_sec=result.seconds)
    _judge(case, outcome, result.headline, "\n".join([clean(result.headline), *map(clean, result.undo)]))
    return case


def _judge(case: TestCase, outcome: Outcome, reason: str, output: str) -> None:
    message = clean(reason) or outcome.value
    if outcome is Outcome.FAIL:
        case.add_failure_info(message, output, "fail")
    elif outcome is Outcome.UNKNOWN:
        case.add_error_info(message, output, "inconclusive")
    else:
        case.stdout = output


def _properties(result: Result) -> dict[str, str]:
    found: dict[str, object] = {"outcome": result.outcome.value, "exit": int(result.exit), "seed": result.seed}
    if recovery := result.worst:
        found |= {f.name: f"{number(f.value)} {f.unit}" for f in (*rto(result, recovery), *rpo(result, recovery))}
        found |= {"resume": seconds(recovery.resume), "catch-up": seconds(recovery.catch_up)}
    found |= {"goodput": number(result.efficiency.goodput), "ettr": number(result.efficiency.ettr)}
    return {key: clean(value) for key, value in found.items() if value is not None}
