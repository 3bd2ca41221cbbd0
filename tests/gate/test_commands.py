"""Commands: exact, quoted, and as few as clear everything."""

from __future__ import annotations

import msgspec

from chaos.errors import Exit
from chaos.gate import Calling
from chaos.gate.commands import cover
from chaos.paths import Path, Spot
from gate.scene import RECIPE, decided, entry, run, runs, with_paths

PATHS = tuple(Path(name=f"p{n}", declared=(Spot("a.py", n),)) for n in (1, 2, 3))
FILES = [msgspec.structs.replace(RECIPE, name=name, file=f"e/{name}.yaml") for name in ("a", "b", "c")]


def test_one_experiment_is_run_for_all_that_it_proves() -> None:
    a, b, c = FILES
    entries = (
        msgspec.structs.replace(entry(), path="p1", experiments=(a, b)),
        msgspec.structs.replace(entry(runs=5), path="p2", experiments=(b,)),
        msgspec.structs.replace(entry(runs=1), path="p3", experiments=(c, b)),
    )
    decision = decided(run(experiment="zero"), entries=entries, inventories=(with_paths(*PATHS),))
    assert decision.commands == ("chaos run e/b.yaml --repeat 5",)


def test_runs_of_equal_number_are_one_command_and_the_catalogue_is_changed_once() -> None:
    a, b, _ = FILES
    entries = (
        msgspec.structs.replace(entry(), path="p1", experiments=(a,)),
        msgspec.structs.replace(entry(), path="p2", experiments=(b,)),
        msgspec.structs.replace(entry(), path="gone", experiments=(b,)),
        msgspec.structs.replace(entry(), path="left", experiments=(b,)),
    )
    decision = decided(run(experiment="zero"), entries=entries, inventories=(with_paths(*PATHS[:2]),))
    assert decision.commands == (
        "chaos gate --remove app:gone --remove app:left",
        "chaos run e/a.yaml e/b.yaml --repeat 3",
    )


def test_commands_lead_back_to_the_catalogue_and_the_store_that_were_asked_about() -> None:
    calling = Calling(gate=("--catalogue", "my paths.yaml"), run=("--out", "kept"))
    (command,) = decided(run(experiment="zero"), calling=calling).commands
    assert command == "chaos run experiments/cut.yaml --repeat 3 --out kept"
    gone = msgspec.structs.replace(entry(), path="gone")
    decision = decided(*runs(3), entries=(entry(), gone), calling=calling)
    assert decision.commands == ("chaos gate --catalogue 'my paths.yaml' --remove app:gone",)


def test_folders_are_named_from_here() -> None:
    failed = run(1, Exit.FAIL)
    assert "read /runs/r1/report.html" in decided(failed).paths[0].advice
    assert "read r1/report.html" in decided(failed, calling=Calling(here="/runs")).paths[0].advice


def test_the_experiment_that_is_known_to_go_through_is_named_first() -> None:
    a, b, _ = FILES
    both = msgspec.structs.replace(entry(), experiments=(a, b))
    old = run(40, experiment="b")
    assert decided(old, entries=(both,)).commands == ("chaos run e/b.yaml --repeat 3",)


def test_cover_meets_every_need() -> None:
    assert cover([]) == {}
    needs = [(("a", "b"), 1), (("b", "c"), 2), (("c", "d"), 4), (("d",), 1)]
    chosen = cover(needs)
    assert all(any(chosen.get(file, 0) >= repeat for file in files) for files, repeat in needs)
