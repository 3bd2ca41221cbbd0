"""The example of docs/target.md is run as it is printed there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.cli import main
from chaos.errors import Exit
from chaos.load.target import KEYS

TEXT = (Path(__file__).parents[1] / "docs/target.md").read_text()


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
