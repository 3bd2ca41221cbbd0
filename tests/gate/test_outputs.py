"""What the decision is written as: for a terminal, CI, a pull request, a page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import msgspec
import pytest

from chaos.errors import Exit
from chaos.experiment import Budget, Rto
from chaos.gate import Decision, badge, junit, markdown
from chaos.gate.text import text
from chaos.paths import Path, Spot
from gate.scene import (
    HANDLER,
    INVENTORY,
    PATH,
    RECIPE,
    decided,
    entry,
    run,
    runs,
    waiver,
    with_paths,
)  # fmt: skip

OTHER = Path(name="link.other", declared=(Spot("app/link.py", 2),))
THIRD = Path(name="link.third", declared=(Spot("app/link.py", 3),))


def mixed() -> Decision:
    """One path proved, one waived, one blocked, one handler to warn of."""
    entries = (
        entry(budget=Budget(rto=Rto(total=9.0))),
        msgspec.structs.replace(entry(), path="link.other"),
        msgspec.structs.replace(entry(), path="link.third"),
    )
    return decided(
        *runs(3, figures={"rto.total": 4.0}),
        entries=entries,
        inventories=(with_paths(PATH, OTHER, THIRD, undeclared=(HANDLER,)),),
        waivers=(waiver(5, "app:link.other"),),
        before=(INVENTORY,),
    )


def test_the_terminal_ends_with_the_worst_and_the_commands() -> None:
    shown = text(decided(*runs(2)), width=None, color=False).splitlines()
    assert shown == [
        "GATE BLOCKED: 0 of 1 recovery path proved; 1 few",
        "",
        "BLOCKED  app:link.retry  few  2 of 3 runs (app/link.py:12)",
        "",
        "To open it:",
        "  chaos run experiments/cut.yaml",
    ]
    states = re.findall(r"^(BLOCKED|WAIVED|WARNED|PROVED)", text(mixed(), width=None, color=False), re.MULTILINE)
    assert states == ["PROVED", "WARNED", "WAIVED", "BLOCKED"]


def test_a_proved_path_says_on_what() -> None:
    assert "3 runs, rto.total p95 4 (to 4)" in text(mixed(), width=None, color=False)
    assert "waiver used: app:link.other (ana, 5 days left): new rack" in text(mixed(), width=None, color=False)
    assert "since the last release appeared: app:link.other, app:link.third" in text(mixed(), width=None, color=False)


def test_a_narrow_terminal_wraps_what_is_said_and_no_command() -> None:
    far = msgspec.structs.replace(RECIPE, file=f"experiments/{'x' * 90}.yaml")
    entries = (msgspec.structs.replace(entry(), experiments=(far,)),)
    shown = text(decided(run(experiment="zero"), entries=entries), width=60, color=True)
    assert f"  chaos run {far.file} --repeat 3" in shown.splitlines()
    assert "\x1b[" in shown
    assert "\x1b[" not in text(decided(*runs(3)), width=60, color=False)


def test_quiet_is_the_verdict_and_the_commands() -> None:
    shown = text(mixed(), width=None, color=False, quiet=True)
    assert shown.splitlines()[0].startswith("GATE BLOCKED")
    assert "PROVED" not in shown
    few = text(decided(*runs(2)), width=None, color=False, quiet=True)
    assert few.splitlines()[1:] == ["", "To open it:", "  chaos run experiments/cut.yaml"]


def test_what_no_command_clears_is_said() -> None:
    failed = runs(1, Exit.FAIL)
    entries = (entry(), msgspec.structs.replace(entry(), path="gone"))
    shown = text(decided(*failed, entries=entries), width=None, color=False)
    assert "What commands can do:\n  chaos gate --remove app:gone\nWhat they cannot: app:link.retry" in shown


def test_text_of_a_run_cannot_steer_a_terminal_or_pass_for_markup() -> None:
    nasty = runs(1, Exit.FAIL, headline="\x1b[2J[red]x[/red] | `a` <b> @team\nnew line")
    decision = decided(*nasty)
    shown = text(decision, width=None, color=False)
    assert "\x1b" not in shown
    assert "[red]x[/red]" in shown
    comment = markdown.encode(decision).decode()
    assert "<b>" not in comment
    assert "@team" not in comment
    rows = [line for line in comment.splitlines() if line.startswith("| app:link.retry")]
    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 5


def test_junit_has_a_case_a_path() -> None:
    root = ElementTree.fromstring(junit.encode(mixed()))
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    assert cases.keys() == {"link.retry", "link.other", "link.third", "Link.save"}
    assert [child.tag for child in cases["link.third"]] == ["failure"]
    assert cases["link.third"].find("failure") is not None
    assert [child.tag for child in cases["link.other"]] == ["skipped"]
    assert cases["link.retry"].find("failure") is None
    assert root.attrib["failures"] == "1"
    failure = cases["link.third"].find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "not-exercised"


def test_no_data_is_green_in_no_output() -> None:
    empty = decided()
    root = ElementTree.fromstring(junit.encode(decided(inventories=(), entries=())))
    assert root.attrib["errors"] == "1"
    assert "no data" in badge.encode(empty).decode()
    assert "✅" not in markdown.encode(empty).decode()
    assert "2e7d32" not in badge.encode(empty).decode()


@pytest.mark.parametrize(("count", "said", "color"), [(3, "1/1 proved", "#2e7d32"), (2, "0/1 proved", "#c62828")])
def test_the_badge_counts(count: int, said: str, color: str) -> None:
    picture = ElementTree.fromstring(badge.encode(decided(*runs(count))))
    assert picture.attrib["aria-label"] == f"recovery paths {said}"
    assert color in badge.encode(decided(*runs(count))).decode()


def test_the_comment_has_verdict_table_commands_and_waivers() -> None:
    comment = markdown.encode(mixed()).decode()
    assert comment.startswith("### ❌ Recovery gate blocked: 1 of 3 recovery paths proved; 1 not-exercised\n")
    assert "| app:link.third | **not-exercised** | 3 runs of cut never went through it | `app/link.py:3` |" in comment
    assert "Appeared since the last release: app:link.other, app:link.third" in comment
    assert "| app:link.other | ana | " in comment
    assert " | 5 | used | new rack |" in comment
    assert "1 path proved" in comment
    opened = markdown.encode(decided(*runs(3))).decode()
    assert opened.startswith("### ✅ Recovery gate open: 1 of 1 recovery path proved\n")
    few = markdown.encode(decided(*runs(2))).decode()
    assert "**To open it:**\n```sh\nchaos run experiments/cut.yaml\n```" in few


def test_no_name_breaks_the_table_of_a_comment() -> None:
    odd = Path(name="a|b", declared=(Spot("app/l|`k.py", 2),))
    comment = markdown.encode(decided(*runs(3), entries=(), inventories=(with_paths(odd),))).decode()
    (row,) = (line for line in comment.splitlines() if "app/l" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 5, row


def test_a_comment_is_never_longer_than_hosts_take() -> None:
    paths = tuple(Path(name=f"p{n}", declared=(Spot(f"{'d' * 200}.py", n),)) for n in range(1, 800))
    comment = markdown.encode(decided(*runs(3), entries=(), inventories=(with_paths(*paths),))).decode()
    assert len(comment) < 65_000
    assert comment.endswith("… and more: see the log.\n")
