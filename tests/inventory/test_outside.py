"""Code that a target imports and that is none of its sources: it could change without another build."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.cli.paths import inventory_of

TARGET = "name: app\ndriver: process\nmembers:\n  - {{name: w, role: w, command: [python, {}]}}\n"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    for name, text in (
        ("shared/__init__.py", ""), ("shared/retry.py", "tries = 3\n"), ("targets/app/worker.py", ""),
        ("targets/app/beside.py", "import shared.retry\n"),
    ):  # fmt: skip
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "targets/app/target.yaml").write_text(TARGET.format("worker.py"))
    return tmp_path / "targets" / "app"


@pytest.mark.parametrize(
    "source",
    [
        "import shared.retry", "from shared import retry", "from shared.retry import tries",
        "from ...shared import retry",
        "def late():\n    from shared.retry import *",
    ],
)  # fmt: skip
def test_shared_code_is_told_with_its_place(app: Path, source: str) -> None:
    (app / "worker.py").write_text(source)
    (problem,) = inventory_of(app).problems
    line = 2 if "late" in source else 1
    assert problem.startswith(f"targets/app/worker.py:{line}: imports shared/retry.py, and `sources`")
    text = TARGET.format("worker.py") + "sources: [., ../../shared]\n"
    (app / "target.yaml").write_text(text)
    assert inventory_of(app).problems == ()


@pytest.mark.parametrize("source", ["import beside", "import shared.retry as r"])
@pytest.mark.parametrize("command", ["worker.py", "-m, worker", "-m, targets.app.worker", "-c, 'import worker'"])
def test_it_is_followed_from_what_members_are_started_with(app: Path, source: str, command: str) -> None:
    (app / "target.yaml").write_text(TARGET.format(command))
    (app / "worker.py").write_text(source)
    assert len(inventory_of(app).problems) == 1


def test_a_module_that_is_started_by_its_name_is_followed(app: Path) -> None:
    (app / "worker.py").write_text("run([sys.executable, '-m', 'app.beside'])")
    assert len(inventory_of(app).problems) == 1


@pytest.mark.parametrize("source", ["import json, chaos.inside, torch.distributed", "from . import worker", "x = 1"])
def test_libraries_and_scripts_that_nobody_starts_are_none_of_it(app: Path, source: str) -> None:
    (app / "worker.py").write_text(source)
    assert inventory_of(app).problems == ()


@pytest.mark.parametrize("command", ["../../shared/retry.py", "-m, shared.retry"])
def test_a_member_that_is_started_from_elsewhere_is_told(app: Path, command: str) -> None:
    (app / "target.yaml").write_text(TARGET.format(command))
    (problem,) = (p for p in inventory_of(app).problems if "starts" in p)
    assert problem.startswith("targets/app/target.yaml:4: starts shared/retry.py, and `sources`")
