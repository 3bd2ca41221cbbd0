"""The documentation knows what there is, and the example of docs/target.md is run as it is printed there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
import yaml

from chaos.catalogue import list_kinds
from chaos.cli import main
from chaos.errors import Exit
from chaos.gate import Policy, Reason
from chaos.load.target import KEYS

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "target.md").read_text()


def example(folder: Path) -> dict[str, Path]:
    """The files that the page shows, written out."""
    blocks = re.findall(r"^`([\w.]+)`.*?:\n```\w+\n(.*?)```", TEXT, re.MULTILINE | re.DOTALL)
    for name, text in blocks:
        (folder / name).write_text(text)
    return {name: folder / name for name, _ in blocks}


def test_every_key_of_a_target_file_is_explained() -> None:
    keys = re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)
    table = {word for cell in keys for word in re.findall(r"`([\w-]+)`", cell)}
    assert table == set(KEYS)


@pytest.mark.slow
def test_the_example_passes_and_fails_without_its_save(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = example(tmp_path)
    assert files.keys() == {"counter.py", "target.yaml", "killed.yaml"}
    command = ["run", str(files["killed.yaml"]), "--no-lab", "-q", "--out", str(tmp_path / "runs")]
    assert main(command) == Exit.PASS, capsys.readouterr().out
    program = files["counter.py"].read_text()
    saving = "        saved.write_text(str(step))\n"
    assert saving in program
    files["counter.py"].write_text(program.replace(saving, ""))
    assert main(command) == Exit.FAIL
    assert "20 steps lost (frontier 20, restored 0), 1 allowed" in " ".join(capsys.readouterr().out.split())


def kinds_of(text: str) -> set[str]:
    """The kinds of events that a page has a row for."""
    rows = re.findall(r"^\| (`[a-z_]+\.[a-z_`, .]+`)[^|]*\|", text, re.MULTILINE)
    return {kind for row in rows for kind in re.findall(r"`([a-z_]+\.[a-z_]+)`", row)}


def test_every_fact_that_an_invariant_needs_is_documented() -> None:
    documented = kinds_of((DOCS / "events.md").read_text())
    for row in list_kinds("invariants"):
        assert set(row.needs) <= documented, row.kind


def test_every_fact_of_the_serving_target_is_documented() -> None:
    declared = yaml.safe_load((DOCS.parent / "targets/serving/target.yaml").read_text())["events"]
    assert declared.keys() <= kinds_of((DOCS / "events.md").read_text())


def test_every_invariant_of_a_service_is_in_its_table() -> None:
    table = dict(re.findall(r"^\| (S\d+) \| `([\w-]+)` \|", (DOCS / "serving.md").read_text(), re.MULTILINE))
    assert table == {row.id: row.kind for row in list_kinds("invariants") if row.id.startswith("S")}


def test_every_reason_and_every_key_of_the_gate_is_explained() -> None:
    policy, reasons = (DOCS / "gate.md").read_text().split("## Why a path is blocked")
    keys = re.findall(r"^\| `([a-z-]+)` \| ", policy, re.MULTILINE)
    assert keys == ["experiments", *(field.encode_name for field in msgspec.structs.fields(Policy))]
    assert re.findall(r"^\| `([a-z-]+)` \| ", reasons, re.MULTILINE) == list(get_args(Reason))
