"""The catalogue's file: what it says, and every mistake in it with its place."""

from __future__ import annotations

import hashlib
from datetime import date
from pathlib import Path

import pytest

from chaos.errors import SpecError
from chaos.experiment import Budget, Rpo, Rto
from chaos.load.gate import candidates, load_catalogue

TARGET = "name: app\ndriver: process\nmembers: []\n"
EXPERIMENT = "title: A link is cut\ntags: [network]\ntarget: ../app/target.yaml\nmethod: []\n"
GOOD = """\
targets: [../app/target.yaml, ../other]
policy:
  runs: 5
  fresh: 2h
  build: commit
  flake-rate: 10%
  budget: {rto: {total: 30s}, rpo: {steps: 20}}
  undeclared: block
paths:
  app:
    link.retry: {experiments: [../experiments/cut.yaml], runs: 2, budget: {rto: {detect: 1s}}}
    link.drop:
      experiments:
        - ../experiments/cut.yaml
      verdict: fail
  other:
waivers:
  - {path: "app:link.drop", owner: ana, reason: a new rack, until: 2026-12-31}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("app/target.yaml", TARGET),
        ("other/target.yaml", TARGET.replace("app", "other")),
        ("experiments/cut.yaml", EXPERIMENT),
        ("experiments/other.yaml", EXPERIMENT.replace("app", "other")),
        ("experiments/deep/pull.yaml", EXPERIMENT.replace("..", "../..")),
        ("experiments/none.yaml", "a: 1\n"),
        ("ci/paths.yaml", GOOD),
    ):
        path = Path(name)
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    return Path("ci/paths.yaml")


def mistakes(file: Path, text: str) -> list[str]:
    file.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_catalogue(file)
    return [str(problem).replace(f"{file}:", "") for problem in caught.value.problems]


def test_a_catalogue_is_read_with_its_policies(file: Path) -> None:
    found = load_catalogue(file)
    assert found.targets == ("app/target.yaml", "other/target.yaml")
    retry, drop = found.entries
    assert (retry.name, retry.spot.line, retry.policy.runs, retry.policy.fresh) == ("app:link.retry", 11, 2, 7200.0)
    assert retry.policy.budget == Budget(rto=Rto(detect=1.0))
    assert (drop.policy.runs, drop.policy.verdict, drop.policy.build) == (5, "fail", "commit")
    assert drop.policy.budget == Budget(rto=Rto(total=30.0), rpo=Rpo(steps=20))
    assert drop.policy.flake_rate == 0.1
    assert found.policy.undeclared == "block"
    (recipe,) = retry.experiments
    digest = hashlib.sha256(EXPERIMENT.encode()).hexdigest()
    assert (recipe.name, recipe.file, recipe.digest) == ("cut", "experiments/cut.yaml", digest)
    (waiver,) = found.waivers
    assert (waiver.path, waiver.owner, waiver.until) == ("app:link.drop", "ana", date(2026, 12, 31))


def test_files_are_named_from_here_wherever_the_catalogue_is_named_from(file: Path) -> None:
    assert load_catalogue(file.resolve()).targets == ("app/target.yaml", "other/target.yaml")
    assert load_catalogue(file.resolve()).entries[0].experiments[0].file == "experiments/cut.yaml"


def test_a_path_can_do_without_the_budget_of_all(file: Path) -> None:
    file.write_text(GOOD.replace("budget: {rto: {detect: 1s}}", "budget: none"))
    assert [entry.policy.bounds() for entry in load_catalogue(file).entries] == [
        {},
        {"rpo.steps": 20, "rto.total": 30.0},
    ]


def test_nothing_but_targets_is_needed(file: Path) -> None:
    file.write_text("targets: [../app]\n")
    assert load_catalogue(file).entries == ()


def test_all_mistakes_are_told_at_once_with_their_places(file: Path) -> None:
    wrong = """\
targets: [../app, ../app/target.yaml, ../nowhere]
polizy: {}
policy: {runs: 0, fresh: 14, build: yes, flake-rate: 120%, budget: {rto: 3s}}
paths:
  ap:
    x: {experiments: [../experiments/cut.yaml]}
  app:
    a: {runs: 2}
    b: {experiments: []}
    c: {experiments: [../experiments/cat.yaml], rums: 1}
    d: {experiments: [../experiments/other.yaml], undeclared: block}
    e: {experiments: [../experiments/none.yaml]}
    f: cut.yaml
waivers:
  - {path: link.drop, owner: ana, reason: r, until: soon}
  - {path: "app:x", owner: ana, until: 2026-12-31}
  - {path: "ap:x", owner: ana, reason: r, until: 2026-02-30}
"""
    found = mistakes(file, wrong)
    for expected in (
        "1:19: two targets are called `app`",
        "1:39: `nowhere` cannot be read",
        "2:1: unknown key `polizy` in the catalogue (did you mean `policy`?)",
        "3:16: `0` is not at least 1",
        "3:26: `14` has no unit",
        "3:37: one of any, commit, same is meant, not `yes`",
        "3:54: `120%` is not less than 1",
        "3:74: `rto` does not say of what `3s` is",
        "5:3: unknown key `ap` in `paths` (did you mean `app`?)",
        "8:5: `a` lacks `experiments`",
        "9:22: no experiment, so nothing could prove it",
        "10:23: there is no experiments/cat.yaml (did you mean `../experiments/cut.yaml`?)",
        "10:49: unknown key `rums` in `c` (did you mean `runs`?)",
        "11:23: `experiments/other.yaml` is an experiment of other/target.yaml, not of app",
        "11:63: `undeclared` is about no path",
        "12:23: `experiments/none.yaml` is no experiment",
        "13:8: `f` is a mapping",
        "15:12: `link.drop` is no TARGET:PATH",
        "15:53: `soon` is no day (such as 2026-12-31)",
        "16:5: a waiver lacks `reason`",
        "17:12: `ap:x` is no TARGET:PATH (did you mean `app`?)",
        "17:50: `2026-02-30` is no day",
    ):
        assert any(line.startswith(expected) for line in found), "\n".join([expected, "", *found])
    assert len(found) == 22


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("[]\n", "the catalogue is a mapping, not a list"),
        ("targets: []\npaths: [a]\n", "`paths` is a mapping, not a list"),
        ("policy: {}\n", "the catalogue lacks `targets`"),
        ("targets: [../app]\nwaivers: [{path: 'app:x', owner: a, reason: r, until: 2026-01-01},"
         " {path: 'app:x', owner: a, reason: r, until: 2026-01-01}]\n", "waived twice"),
        ("targets: [../experiments/none.yaml]\n", "is no target file"),
        ("targets: [../app]\npolicy: {fresh: 0s}\n", "nothing is that fresh"),
        ("targets: [../app]\npolicy: {flake-rate: 1}\n", "`1` is not less than 1"),
    ],
)  # fmt: skip
def test_what_is_no_catalogue_says_so(file: Path, text: str, said: str) -> None:
    assert any(said in line for line in mistakes(file, text))


def test_experiments_that_could_be_listed_are_found_by_their_target(file: Path) -> None:
    found = {c.file: c for c in candidates(load_catalogue(file))}
    assert found.keys() == {"experiments/cut.yaml", "experiments/other.yaml", "experiments/deep/pull.yaml"}
    cut = found["experiments/cut.yaml"]
    assert (cut.target, cut.words["cut"], cut.words["network"], cut.words["link"]) == ("app", 3, 2, 1)
    assert found["experiments/other.yaml"].target == "other"


def test_an_experiment_with_a_defect_proves_nothing_of_the_target_as_it_is(file: Path) -> None:
    experiment = file.parent.parent / "experiments" / "cut.yaml"
    whole = experiment.read_text()
    text = "targets: [../app]\npaths: {app: {a: {experiments: [../experiments/cut.yaml]%s}}}\n"
    experiment.write_text(f"{whole}\nsettings: {{defect: no-retry}}\n")
    (found,) = mistakes(file, text % "")
    assert "switches on `defect: no-retry`" in found
    file.write_text("targets: [../app]\n")
    assert {c.name: c.defect for c in candidates(load_catalogue(file))}["cut"] == "no-retry"
    file.write_text(text % ", verdict: fail")
    assert load_catalogue(file).entry("app", "a") is not None
    experiment.write_text(f"{whole}\nsettings: {{defect: none}}\n")
    file.write_text(text % "")
    assert load_catalogue(file).entry("app", "a") is not None
