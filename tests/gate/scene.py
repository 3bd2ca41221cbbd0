"""A target with one recovery path, a catalogue that lists it, and runs that were never run."""

from __future__ import annotations

from typing import Any

import msgspec

from chaos.errors import Exit
from chaos.evidence import Build, Evidence
from chaos.gate import Calling, Catalogue, Decision, Entry, Policy, Question, Recipe, Ruling, Waiver, decide
from chaos.paths import Handler, Inventory, Path, Spot
from chaos.verdict import Outcome

NOW = 1_800_000_000.0
DAY = 86400.0
TODAY = Build(sources="new", commit="c1")
OUTCOMES = {
    Exit.PASS: Outcome.PASS,
    Exit.FAIL: Outcome.FAIL,
    Exit.INCONCLUSIVE: Outcome.UNKNOWN,
    Exit.HEAL_FAILED: Outcome.PASS,
    Exit.INTERRUPTED: Outcome.UNKNOWN,
}
RECIPE = Recipe(name="cut", file="experiments/cut.yaml", digest="r1")
PATH = Path(name="link.retry", listed=Spot("app/target.yaml", 3), declared=(Spot("app/link.py", 12),))
INVENTORY = Inventory(target="app", file="app/target.yaml", sources="new", paths=(PATH,))


def run(ago: float = 1.0, exit: Exit = Exit.PASS, **more: Any) -> Evidence:
    """A run `ago` days old that went through the path, unless it says otherwise."""
    return Evidence(
        **{
            "run": f"r{ago:g}", "folder": f"/runs/r{ago:g}", "experiment": "cut", "file": "/e/cut.yaml",
            "target": "app", "recipe": "r1", "build": Build(sources="new", commit="c1"), "started": NOW - ago * DAY,
            "outcome": OUTCOMES[exit], "exit": exit, "headline": f"said {exit.name}", "paths": ("link.retry",),
            "journal": "j", **more,
        }
    )  # fmt: skip


def runs(count: int, exit: Exit = Exit.PASS, since: float = 1.0, **more: Any) -> list[Evidence]:
    """So many, one an hour, the newest first."""
    return [run(since + n / 24, exit, **more) for n in range(count)]


def entry(**policy: Any) -> Entry:
    """The path as the catalogue lists it; three runs where nothing else is said."""
    return Entry(
        target="app", path="link.retry", experiments=(RECIPE,), policy=Policy(**policy), spot=Spot("ci/paths.yaml", 9)
    )


def waiver(days: int = 10, path: str = "app:link.retry") -> Waiver:
    """For so many days more, today counted."""
    from datetime import UTC, datetime, timedelta

    until = datetime.fromtimestamp(NOW, UTC).date() + timedelta(days=days - 1)
    return Waiver(path=path, owner="ana", reason="new rack", until=until, spot=Spot("ci/paths.yaml", 20))


def question(*recorded: Evidence, entries: tuple[Entry, ...] | None = None, **more: Any) -> Question:
    """What the gate is asked; oldest run first, as a store gives them."""
    listed = (entry(),) if entries is None else entries
    catalogue = Catalogue(
        file="ci/paths.yaml",
        targets=("app/target.yaml",),
        policy=more.pop("policy", Policy()),
        entries=listed,
        waivers=more.pop("waivers", ()),
    )
    return Question(
        **{
            "catalogue": catalogue, "inventories": (INVENTORY,), "builds": {"app": TODAY},
            "runs": tuple(sorted(recorded, key=lambda r: r.started)), "now": NOW, "calling": Calling(), **more,
        }
    )  # fmt: skip


def decided(*recorded: Evidence, **more: Any) -> Decision:
    return decide(question(*recorded, **more))


def ruling(*recorded: Evidence, **more: Any) -> Ruling:
    """Of the only path."""
    (found,) = decided(*recorded, **more).paths
    return found


def why(*recorded: Evidence, **more: Any) -> str:
    """The reason word; "" where the path is proved."""
    found = ruling(*recorded, **more)
    return found.why.reason if found.why else ""


def with_paths(*paths: Path, **more: Any) -> Inventory:
    return msgspec.structs.replace(INVENTORY, paths=paths, **more)


HANDLER = Handler(
    spot=Spot("app/link.py", 40), concern="store", catches=("OSError",), calls="store.put", inside="Link.save"
)
