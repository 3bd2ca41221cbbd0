"""Whatever is on record, an open gate has what it asks for: many stores made of dice, and the promise checked apart."""

from __future__ import annotations

import random

import msgspec
import pytest

from chaos.errors import Exit
from chaos.evidence import Build, Evidence
from chaos.experiment import Budget, Rto
from chaos.gate import Entry, Policy, Recipe
from chaos.gate.decision import Verdict
from gate.scene import DAY, NOW, RECIPE, TODAY, decided, entry, ruling, run

BUILDS = (
    TODAY, TODAY, TODAY, TODAY, Build(sources="old", commit="c0"), Build(sources="new", commit="c1", dirty=True),
    Build(sources="old", commit="c1"),
)  # fmt: skip
EXITS = (Exit.PASS,) * 5 + (Exit.FAIL, Exit.INCONCLUSIVE, Exit.HEAL_FAILED, Exit.INTERRUPTED)


OTHER = Recipe(name="pull", file="experiments/pull.yaml", digest="r1")


def thrown(dice: random.Random, number: int) -> Evidence:
    return run(
        dice.choice([0.1, 1, 2, 5, 13.9, 14.1, 20, -0.01, -0.2]) + number * 1e-6, dice.choice(EXITS),
        run=f"x{number}", experiment=dice.choice(["cut", "cut", "pull"]), build=dice.choice(BUILDS),
        paths=dice.choice([("link.retry",)] * 4 + [()]),
        recipe=dice.choice(["r1"] * 5 + ["r0"]), overrides=dice.choice([{}] * 6 + [{"nodes": "9"}]),
        journal=dice.choice(["j"] * 8 + [""]), lab=dice.choice([True] * 4 + [False]),
        figures=dice.choice([{"rto.total": 3.0}, {"rto.total": 30.0}, {}]),
    )  # fmt: skip


def policy(dice: random.Random) -> Policy:
    return Policy(
        runs=dice.choice([1, 2, 3]), build=dice.choice(["same", "commit", "any"]),
        flake_rate=dice.choice([0.0, 0.0, 0.2, 0.5]), lab=dice.choice(["any", "required"]),
        budget=dice.choice([Budget(), Budget(), Budget(rto=Rto(total=10.0))]),
    )  # fmt: skip


def usable(asked: Policy, one: Evidence) -> bool:
    """What the documentation says of a run that counts, in other words than the gate's."""
    same = {"any": True, "same": one.build.sources == TODAY.sources, "commit": one.build == TODAY}[asked.build]
    fresh = NOW - 14 * DAY <= one.started <= NOW + 3600
    return same and fresh and one.recipe == "r1" and not one.overrides and (one.lab or asked.lab == "any")


def listed(asked: Policy) -> Entry:
    return msgspec.structs.replace(entry(), policy=asked, experiments=(RECIPE, OTHER))


@pytest.mark.parametrize("seed", range(8))
def test_what_the_commands_run_opens_it(seed: int) -> None:
    """Where a command is printed, and all that it runs passes through the path, the next gate is open."""
    dice, followed = random.Random(seed), 0
    for _ in range(150):
        asked = policy(dice)
        recorded = [thrown(dice, n) for n in range(dice.randrange(1, 12))]
        found = ruling(*recorded, entries=(listed(asked),))
        if not found.commands:
            continue
        followed += 1
        assert found.todo is not None
        files = found.todo.run if found.todo.every else found.todo.run[:1]
        after = [
            run(-0.02 - 0.0001 * n, run=f"y{file}{n}", experiment=file[len("experiments/") : -len(".yaml")],
                figures={"rto.total": 3.0})
            for file in files for n in range(found.todo.repeat)
        ]  # fmt: skip
        left = ruling(*recorded, *after, entries=(listed(asked),))
        assert left.why is None or left.why.reason == "over-budget", (found, left)
    assert followed, "no command was printed, so nothing was checked"


@pytest.mark.parametrize("seed", range(8))
def test_an_open_gate_has_what_it_asks_for(seed: int) -> None:
    dice, opened = random.Random(seed), 0
    for _ in range(150):
        asked = policy(dice)
        recorded = [thrown(dice, n) for n in range(dice.randrange(1, 12))]
        entries = (listed(asked),)
        if decided(*recorded, entries=entries).verdict is not Verdict.OPEN:
            continue
        opened += 1
        counting = [one for one in recorded if usable(asked, one)]
        proofs = [one for one in counting if one.exit is Exit.PASS and one.journal and one.paths]
        assert len(proofs) >= asked.runs
        if asked.budget.rto is not None:
            assert any(one.figures.get("rto.total", 99.0) <= 10.0 for one in proofs)
        if not asked.flake_rate:
            assert not [one for one in counting if one.exit is Exit.FAIL and one.build.sources == TODAY.sources]
            failed = run(0.05, Exit.FAIL, run="failed")
            assert decided(*recorded, failed, entries=entries).verdict is Verdict.BLOCKED
        for name in ("cut", "pull"):
            own = [one for one in counting if one.experiment == name and one.build.sources == TODAY.sources]
            exits = [one.exit for one in own if one.exit in (Exit.PASS, Exit.FAIL)]
            assert exits.count(Exit.FAIL) <= asked.flake_rate * len(exits)
    assert opened, "the dice never opened it, so nothing was checked"
