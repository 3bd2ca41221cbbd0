"""The plan of a game day: what is read, and every mistake told where it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from chaos.errors import SpecError
from chaos.gameday.agenda import LLAMA3, LLAMA3_RATE
from chaos.load.gameday import KEYS, load_gameday

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests" / "verdicts" / "target" / "target.yaml"
PAGE = (ROOT / "docs" / "gameday.md").read_text()
EXPERIMENT = """\
title: {title}
target: {target}
method:
  - {{fault: process.freeze, members: {members}, when: {{at: 0s}}, hold: 100ms}}
budget: {{rto: {{total: 20s}}}}
invariants: [no-orphan]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with three experiments."""
    for name, members in (("one", "{ranks: [1]}"), ("node", "{nodes: [n1]}"), ("two", "{roles: [worker]}")):
        text = EXPERIMENT.format(title=f"The {name}", target=TINY, members=members)
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def written(place: Path, text: str) -> Path:
    path = place / "day.yaml"
    path.write_text(text)
    return path


def mistakes(place: Path, text: str) -> list[str]:
    """What is told, without the folder."""
    with pytest.raises(SpecError) as caught:
        load_gameday(written(place, text))
    return [str(problem).replace(f"{place}/", "") for problem in caught.value.problems]


def test_a_list_with_everything_around_it(place: Path) -> None:
    plan = load_gameday(
        written(
            place,
            """\
title: Friday
schedule: {cron: "0 10 * * fri", timezone: Europe/Berlin, missed: late, grace: 30m}
blackouts: [{from: 2026-12-20, to: 2027-01-06, why: freeze}]
business-hours: {days: mon-fri, from: "09:00", to: "17:00"}
ladder: [member, node]
experiments:
  - one.yaml
  - {file: node.yaml, approval: ask, seed: 9}
  - {file: two.yaml, rung: node, approval: none, settings: {steps: 40}}
approvals: {before: [start, node], within: 10m, then: abort}
announce: [{webhook: "http://127.0.0.1:9/x"}, {file: said.log}]
interrupted: rerun
stop-on: fail
target-busy: wait
lab: false
""",
        )
    )
    assert (plan.title, plan.name, plan.timezone) == ("Friday", "day", "Europe/Berlin")
    assert plan.timetable is not None
    assert plan.timetable.grace == 1800
    assert [(p.name, p.rung, p.derived, p.ask, p.seed) for p in plan.pieces] == [
        ("one", "member", True, None, 0),
        ("node", "node", True, True, 9),
        ("two", "node", False, False, 0),
    ]
    assert plan.pieces[2].settings == {"steps": "40"}
    assert plan.pieces[0].promises == ("RTO total ≤ 20s", "no-orphan")
    assert plan.targets == (str(TINY),)
    assert plan.approvals is not None
    assert (plan.approvals.within, plan.approvals.then) == (600, "abort")
    assert plan.announce[1].file == str(place / "said.log")
    assert (plan.interrupted, plan.stop_on, plan.busy, plan.lab) == ("rerun", "fail", "wait", False)


def test_a_draw_by_a_published_mix(place: Path) -> None:
    text = "draw: {count: 12, mix: llama3, map: {nic: [one.yaml, two.yaml]}, arrivals: poisson, accelerate: 1000}"
    plan = load_gameday(written(place, text))
    assert plan.draw is not None
    assert plan.draw.mix == LLAMA3
    assert plan.draw.rate == LLAMA3_RATE
    assert plan.draw.accelerate == 1000
    assert plan.draw.stands_for == {"nic": (0, 1)}
    assert plan.title == "day"


def test_a_draw_by_a_mix_of_its_own(place: Path) -> None:
    text = "draw: {count: 3, mix: {a: 1, b: 2.5}, map: {b: [one.yaml]}, rate: 7.8/d}"
    plan = load_gameday(written(place, text))
    assert plan.draw is not None
    assert plan.draw.mix == {"a": 1.0, "b": 2.5}
    assert plan.draw.rate == pytest.approx(7.8 / 86400)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("title: x", ["1:1: a game day has `experiments`, or `draw`s them (give one of the two)"]),
        ("experiments: []", ["1:14: `experiments` is empty (name at least one experiment)"]),
        ("experimets: [one.yaml]", ["1:1: unknown key `experimets`", "1:1: a game day has"]),
        ("experiments: [on.yaml]", ["1:15: `on.yaml` is no file (did you mean `one.yaml`?)"]),
        (
            "experiments: [one.yaml]\nschedule: {cron: 0 10 * fri, timezone: Europe/Berln}",
            ["2:40: no time zone `Europe/Berln`"],
        ),
        ("experiments: [one.yaml]\nschedule: {cron: 0 10 * fri}", ["2:18: `0 10 * fri` has 4 fields, not five"]),
        ("experiments: [one.yaml]\nschedule: {cron: 0 25 * * fri}", ["2:18: `0 25 * * fri`:"]),
        (
            "experiments: [one.yaml]\nschedule: {cron: 0 10 * * frid}",
            ["2:18: `0 10 * * frid`: `frid` is no day of the"],
        ),
        ("experiments: [one.yaml]\nschedule: {cron: 0 10 1 * 5}", ["2:18: `0 10 1 * 5`: cron starts when either"]),
        ("experiments: [one.yaml]\nschedule: {missed: late}", ["2:11: `schedule` lacks `cron`"]),
        (
            "experiments: [one.yaml]\nschedule: {cron: 0 10 * * 5, missed: lat}",
            ["2:38: one of late, report, skip is meant, not `lat` (did you mean `late`?)"],
        ),
        (
            "experiments: [one.yaml]\nblackouts: [{from: 2027-01-06, to: 2026-12-20}]",
            ["2:13: a blackout that ends (2026-12-20) before it begins (2027-01-06)"],
        ),
        ("experiments: [one.yaml]\nblackouts: [{from: tomorrow, to: 2026-12-20}]", ["2:13: `tomorrow` is no date"]),
        ("experiments: [one.yaml]\nbusiness-hours: {days: mon-fry}", ["2:17: `mon-fry` is no day or span of days"]),
        ("experiments: [one.yaml]\nbusiness-hours: {from: 9am}", ["2:17: `9am` is no time of the day"]),
        (
            "experiments: [{file: node.yaml}]\nladder: [member]",
            ["1:22: `node` hits the rung `node`, which the ladder has not (add it to the ladder, or declare `rung:`)"],
        ),
        (
            "experiments: [{file: one.yaml, rung: membr}]\nladder: [member, node]",
            ["1:38: no rung `membr` (did you mean `member`?)"],
        ),
        (
            "experiments: [{file: one.yaml, settings: {stps: 3}}]",
            ["--set stps=3: the target has no setting `stps` (did you mean `steps`?)"],
        ),
        (
            "experiments: [one.yaml]\napprovals: {before: [strt]}",
            ["2:22: `strt` is nothing that an approval could come before (did you mean `start`?)"],
        ),
        ("experiments: [one.yaml]\nannounce: [{webhook: ftp://x/}]", ["2:12: `ftp://x/` is no http or https address"]),
        ("experiments: [one.yaml]\nannounce: [{}]", ["2:12: a channel is `webhook: URL` or `file: PATH`"]),
        ("draw: {count: 0, mix: llama3, map: {nic: [one.yaml]}}", ["1:15: `0` is not more than 0"]),
        ("draw: {count: 1, mix: lama3, map: {nic: [one.yaml]}}", ["1:23: no mix `lama3` (did you mean `llama3`?)"]),
        (
            "draw: {count: 1, mix: llama3, map: {nick: [one.yaml]}}",
            ["1:37: unknown key `nick` in `map` (did you mean `nic`?)"],
        ),
        (
            "draw: {count: 1, mix: {a: 0}, map: {a: [one.yaml]}}",
            ["1:23: a mix without any weight"],
        ),
        (
            "draw: {count: 1, mix: {a: 1}, map: {a: [one.yaml]}, arrivals: poisson}",
            ["1:63: `arrivals: poisson` needs a rate (such as `rate: 7.8/d`)"],
        ),
        (
            "draw: {count: 1, mix: {a: 1}, map: {a: [one.yaml]}, accelerate: 5}",
            ["1:65: `accelerate` means nothing for experiments that follow each other (remove it)"],
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(place: Path, text: str, expected: list[str]) -> None:
    told = [line.removeprefix("day.yaml:") for line in mistakes(place, text)]
    assert len(told) == len(expected), told
    for line, begin in zip(told, expected, strict=True):
        assert line.startswith(begin), told


def test_mistakes_of_the_plan_and_of_its_experiments_are_told_at_once(place: Path) -> None:
    (place / "bad.yaml").write_text(EXPERIMENT.format(title="x", target=TINY, members="{ranks: [9]}"))
    told = mistakes(place, "stop-on: success\nexperiments: [bad.yaml, two.yaml]\nlab: maybe")
    assert [line.split(": ")[0] for line in told] == ["day.yaml:1:10", "day.yaml:3:6", "bad.yaml:4:47"]
    assert "the target has no rank `9`" in told[2]


def test_every_plan_of_the_documentation_is_one(tmp_path: Path) -> None:
    for folder in ("experiments", "targets"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        assert load_gameday(written(tmp_path, block)).pieces


def test_every_key_of_a_plan_is_documented() -> None:
    rows = {word for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for word in re.findall(r"`([\w-]+)`", row)}
    shown = {key for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) for key in yaml.safe_load(block)}
    assert set(KEYS) == rows | shown
