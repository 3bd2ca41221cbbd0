"""The decision as JUnit XML: a suite a target, a case a path. What is waived is skipped, so that it is seen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from chaos.clean import clean
from chaos.gate.decision import Decision, Ruling, State, Verdict
from chaos.gate.text import proof

if TYPE_CHECKING:
    from junit_xml import TestCase


def encode(decision: Decision) -> bytes:
    """The document. A gate without data has a case of its own that is an error: no CI system shows it green."""
    from junit_xml import TestCase, TestSuite, to_xml_report_string

    when = datetime.fromtimestamp(decision.decided, UTC).isoformat()
    by_target: dict[str, list[TestCase]] = {}
    for ruling in decision.rulings:
        by_target.setdefault(ruling.target, []).append(_case(ruling))
    suites = [TestSuite(clean(name), cases, package="chaos.gate", timestamp=when) for name, cases in by_target.items()]
    if decision.verdict is Verdict.NO_DATA:
        case = TestCase("data", classname="chaos.gate")
        case.add_error_info(clean(decision.headline), error_type="no data")
        suites.append(TestSuite("gate", [case], package="chaos.gate", timestamp=when))
    document: str = to_xml_report_string(suites, prettyprint=False, encoding="utf-8")
    return document.encode()


def _case(ruling: Ruling) -> TestCase:
    from junit_xml import TestCase

    where = ruling.where
    case = TestCase(
        clean(ruling.name),
        classname=f"{clean(ruling.target)}.{ruling.kind}",
        file=clean(where.file) if where else None,
        line=where.line if where else None,
    )
    if ruling.why is None or ruling.state is State.WARNED:
        case.stdout = clean(ruling.why.detail if ruling.why else proof(ruling))
        return case
    lines = [f"{note.reason}: {note.detail}" for note in (ruling.why, *ruling.notes)]
    message = clean(lines[0])
    if ruling.state is State.WAIVED:
        owner = f" (waived until {ruling.waiver.until}, {ruling.waiver.owner})" if ruling.waiver else ""
        case.add_skipped_info(clean(message + owner))
        return case
    lines += [f"to clear it: {line}" for line in (*ruling.commands, ruling.advice) if line]
    case.add_failure_info(message, "\n".join(map(clean, lines)), ruling.why.reason)
    return case
