"""What `list` and `explain` say about plugins, and that their examples load."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from chaos.catalogue import WORDS, explain, list_kinds
from chaos.errors import PluginError
from chaos.fileops import FILE_OPS
from chaos.load import load_experiment
from chaos.load.triggers import BESIDE, HARNESS
from chaos.registry import GROUPS, Registry
from chaos.trigger import PHASES, Trigger

from .conftest import Load

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "docs" / "events.md"
TRAINER = ROOT / "targets" / "trainer" / "target.yaml"
SERVING = ROOT / "targets" / "serving" / "target.yaml"


def test_a_list_has_one_row_a_kind_in_the_order_of_the_groups(registry: Registry) -> None:
    rows = list_kinds(registry=registry)
    assert [row.group for row in rows] == sorted((row.group for row in rows), key=list(GROUPS).index)
    by_kind = {row.kind: row for row in rows}
    assert by_kind["process.kill"].summary == "Kill members at once."
    assert by_kind["process.kill"].needs == ("Signals",)
    assert by_kind["fenced-writer"].id == "T9"
    assert by_kind["fenced-writer"].needs == ("write.accepted",)
    assert [row.kind for row in list_kinds("drivers", registry)] == ["process"]


def test_an_explanation_says_everything_about_a_fault(registry: Registry) -> None:
    text = explain("process.freeze", registry)
    assert text.startswith("process.freeze  (fault)\n\nStop members, start them again.")
    for line in (
        r"fidelity: Stands for a hang\.",
        r"heals: +when `hold` ends",
        r"needs: +a target with Signals",
        r"members +a selector; required",
        r"ramp +a duration; default 0s",
        r"duty +a ratio; default 100%",
        r"scratch +a size; default 64KiB",
        r"how +one of cgroup, stop; default stop",
        r"threads +a whole number; default 1",
        r"only-leader +true or false; default false",
        r"note +a word; optional",
        r"signals +a list, each item a whole number; default \[19\]",
    ):
        assert re.search(rf"^ *{line}", text, re.MULTILINE), line


def test_an_explanation_of_an_invariant_names_its_number_and_events(registry: Registry) -> None:
    text = explain("no-orphan", registry)
    assert "(invariant T12)" in text
    assert "needs:    the events worker.stopped, member.exited" in text
    assert re.search(r"lease +a duration; default 3s", text)


def test_an_unknown_kind_is_answered_with_a_near_miss(registry: Registry) -> None:
    with pytest.raises(PluginError, match=r"did you mean `process\.freeze`"):
        explain("process.freze", registry)


def test_a_setting_that_says_what_it_is_is_explained_so() -> None:
    text = explain("checkpoint.corrupt", Registry())
    assert re.search("path +a glob below the target's data; optional", text)
    assert re.search("generation +a whole number or newest, newest-1, …; default newest", text)


@pytest.mark.parametrize("kind", [*Registry().kinds("faults"), *Registry().kinds("probes"), *WORDS])
def test_a_default_is_written_as_it_would_be_in_an_experiment(kind: str) -> None:
    assert not re.search(r"default .*[(<=']", explain(kind))


def test_the_default_of_a_selector_says_whom_it_means() -> None:
    assert "members  a selector; default every member\n" in explain("storage.error")
    assert "cut-from  a selector; default {roles: [store]}\n" in explain("writer.two-leaders")


def test_words_of_an_experiment_are_explained_from_their_types(registry: Registry) -> None:
    assert re.search(r"^  warmup +a duration; optional$", explain("rto", registry), re.MULTILINE)
    assert "beside it: where, nth, delay" in explain("point", registry)
    assert all(len(explain(word, registry)) > 60 for word in WORDS)


@pytest.mark.parametrize("word", [word for word, cls in WORDS.items() if issubclass(cls, Trigger)])
def test_the_example_of_a_trigger_loads(word: str, tmp_path: Path) -> None:
    when = explain(word).partition("example:\n")[2].strip()
    file = tmp_path / "example.yaml"
    steady = "steady-state-hypothesis: [{probe: training.throughput, at-least: 1}]"
    first = "  - {fault: process.kill, members: {ranks: 1}, when: {at: 1s}}"
    second = "  - fault: process.freeze\n    members: {ranks: 0}"
    file.write_text(f"target: {TRAINER}\n{steady}\nmethod:\n{first}\n{second}\n    {when}\n")
    assert isinstance(load_experiment(file).method[1].when, WORDS[word])


def test_the_trigger_on_files_names_its_keys_and_all_operations() -> None:
    text = explain("file")
    assert re.search(r"path +a glob below the target's data, or one that begins with /; required", text)
    assert all(re.search(rf"op +one of .*\b{op}\b", text) for op in FILE_OPS)


@pytest.mark.parametrize(
    "name", ["Signals", "Taps", "Checkpoints", "Files", "PoweredDisks", "Power", "Groups", "Limits"]
)
def test_what_a_fault_needs_of_a_target_is_explained(name: str) -> None:
    assert explain(name).startswith(f"{name}  (what a fault needs of a target)\n\n")
    assert len(explain(name).partition("\n\n")[2]) > 20


@pytest.mark.parametrize("kind", ["process.kill", "process.freeze", "network.partition"])
def test_the_example_of_a_fault_loads(registry: Registry, load: Load, kind: str) -> None:
    example = textwrap.dedent(explain(kind, registry).partition("example:\n")[2])
    assert load(f"target: target.yaml\nmethod:\n{example}").method[0].kind == kind


def test_the_example_of_a_probe_and_of_an_invariant_load(registry: Registry, load: Load) -> None:
    probe, invariant = (
        textwrap.dedent(explain(kind, registry).partition("example:\n")[2])
        for kind in ("training.throughput", "fenced-writer")
    )
    text = f"target: target.yaml\nmethod: []\nsteady-state-hypothesis:\n{probe}\ninvariants:\n{invariant}"
    assert load(text).steady[0].kind == "training.throughput"


FAULTS, PROBES, INVARIANTS = (Registry().kinds(group) for group in ("faults", "probes", "invariants"))


@pytest.mark.parametrize("kind", [*FAULTS, *PROBES, *INVARIANTS])
def test_every_built_in_kind_is_explained_with_an_example_that_loads(kind: str, tmp_path: Path) -> None:
    text = explain(kind)
    example = textwrap.dedent(text.partition("example:\n")[2])
    method = example if kind in FAULTS else "  []"
    serves = kind.startswith("serving.") or re.search(r"needs:.* (request|attempt|kv)\.", text)
    parts = [f"target: {SERVING if serves else TRAINER}\nmethod:\n{method}\n"]
    parts += [f"steady-state-hypothesis:\n{example}\n"] if kind in PROBES else []
    parts += [f"invariants:\n{example}\n"] if kind in INVARIANTS else []
    file = tmp_path / "example.yaml"
    file.write_text("".join(parts))
    experiment = load_experiment(file)
    assert kind in (
        *(s.kind for s in experiment.method),
        *(h.kind for h in experiment.steady),
        *(name for name, _ in experiment.invariants),
    )


def test_the_events_of_the_harness_are_those_of_the_documentation() -> None:
    section = EVENTS.read_text().partition("## Harness\n")[2].partition("\n## ")[0]
    documented: dict[str, str] = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            kinds, _, data = (cell.strip() for cell in line.strip("|").split("|")[:3])
            for kind in re.findall(r"`([\w.]+)`", kinds):
                documented[kind] = data
    assert HARNESS.keys() == documented.keys()
    for kind, fields in HARNESS.items():
        assert [field for field in fields if not re.search(rf"\b{field}\b", documented[kind])] == [], kind


@pytest.mark.parametrize("word", BESIDE)
def test_every_trigger_is_explained(word: str) -> None:
    assert explain(word).startswith(f"{word}  (trigger)")


def test_the_phases_are_explained_with_the_events_that_lead_there() -> None:
    text = explain("phase")
    for phase, kinds in PHASES.items():
        assert f"`{phase}`" in text
        assert f"`{kinds[-1]}`" in text
