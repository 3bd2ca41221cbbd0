"""Verbs, options and exit codes that need no target."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from judge.histories import Tape

from chaos.cli import VERBS, main, parser, running
from chaos.cli.judging import digest
from chaos.errors import Exit, TargetError
from cli.recorded import record

ROOT = Path(__file__).parents[2]
CONTROL = str(ROOT / "experiments/control.yaml")


def test_help_imports_nothing_heavy_and_no_plugin() -> None:
    code = (
        "import sys\nfrom chaos.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stderr.split())
    assert "chaos.cli" in loaded
    assert not loaded & {"torch", "numpy", "rich", "yaml", "anyio", "msgspec", "jinja2", "pyroute2", "chaos.api"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_alone_is_parsed_as_among_the_others(verb: str) -> None:
    more = {
        **{name: ["x"] for name in ("run", "validate", "explain", "judge", "report", "paths")},
        "gameday": ["status"],
    }.get(verb, [])
    assert parser(only=verb).parse_args([verb, *more]) == parser().parse_args([verb, *more])


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["rum"], []])
def test_help_and_complaints_name_what_there_is(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(words)
    said = capsys.readouterr()
    assert ("--repeat N" if words[:1] == ["run"] else "VERB") in said.out + said.err


def test_every_mistake_of_every_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(f"target: {ROOT}/targets/trainer/target.yaml\nmethud: []\nmethod: []\nseed: fast\n")
    assert main(["validate", str(bad), CONTROL]) == Exit.USAGE
    said = capsys.readouterr()
    assert f"{bad}:2:1: " in said.err
    assert f"{bad}:4:7: " in said.err
    assert f"{CONTROL}: ok" in said.out


def test_a_mistake_in_the_last_file_costs_no_run_of_the_first(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("method: []\n")
    assert main(["run", CONTROL, str(bad), "--out", str(tmp_path / "runs")]) == Exit.USAGE
    assert not (tmp_path / "runs").exists()


def test_a_run_that_cannot_begin_hides_no_failure_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: Iterator[Exit | TargetError] = iter((Exit.FAIL, TargetError("somebody else uses this target"), Exit.PASS))

    def end(*_: object) -> Exit:
        outcome = next(ends)
        if isinstance(outcome, TargetError):
            raise outcome
        return outcome

    monkeypatch.setattr(running, "_repeat", end)
    assert main(["run", CONTROL, CONTROL, CONTROL]) == Exit.FAIL
    assert next(ends, None) is None


@pytest.mark.parametrize("text", ["nodes", "=4", "nodse=4", "nodes=many"])
def test_a_wrong_setting_is_a_wrong_call(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", CONTROL, "--set", text]) == Exit.USAGE
    assert text.partition("=")[0] in capsys.readouterr().err


def test_a_plan_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(ROOT / "experiments/partition_during_checkpoint.yaml")
    assert main(["run", file, "--plan", "--out", str(tmp_path / "runs")]) == Exit.PASS
    assert "n3 | s0, n0, n1, n2" in capsys.readouterr().out
    assert not (tmp_path / "runs").exists()


def test_repeats_must_be_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["run", CONTROL, "--repeat", "0"])
    assert raised.value.code == Exit.USAGE


@pytest.mark.parametrize("verb", ["judge", "report"])
def test_what_is_no_run_is_told(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, str(tmp_path / "nothing")]) == Exit.USAGE
    assert main([verb, str(tmp_path)]) == Exit.USAGE
    assert str(tmp_path) in capsys.readouterr().err


def test_a_contract_that_was_changed_after_the_run_began_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tape = Tape().start(steps=5).train(1, 5).done(5)
    record(tmp_path, tape)
    first = tape.events[0]
    for contract, code in ((digest(tmp_path / "contract.json"), Exit.INCONCLUSIVE), ("0" * 64, Exit.USAGE)):
        tape.events[0] = msgspec.structs.replace(first, data={**first.data, "contract": contract})
        record(tmp_path, tape)
        assert main(["judge", str(tmp_path)]) == code
    assert "not the contract that the run was begun with" in capsys.readouterr().err


def test_a_near_miss_of_a_kind_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "network.partion"]) == Exit.USAGE
    assert "network.partition" in capsys.readouterr().err


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == Exit.PASS
    assert json.loads(capsys.readouterr().out)["type"] == "object"


def test_both_commands_are_installed() -> None:
    for name in ("chaos", "mlchaos"):
        command = Path(sys.executable).with_name(name)
        done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("mlchaos ")


def test_a_place_that_may_not_be_read_is_a_wrong_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: object) -> int:
        raise PermissionError(13, "Permission denied", "/root/runs/x")

    monkeypatch.setattr("chaos.cli.again.main", refuse)
    assert main(["judge", "/root/runs/x"]) == Exit.USAGE
    assert capsys.readouterr().err == "chaos: /root/runs/x: Permission denied\n"


def test_a_bug_is_told_with_its_place_or_the_way_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_down(_: object) -> int:
        raise LookupError("no such thing")

    monkeypatch.setattr("chaos.cli.again.main", break_down)
    assert main(["judge", "x"]) == Exit.INCONCLUSIVE
    said = capsys.readouterr().err
    assert "in break_down" in said
    assert "-v" not in said
    monkeypatch.setattr("chaos.cli.running.main", break_down)
    assert main(["run", "x"]) == Exit.INCONCLUSIVE
    said = capsys.readouterr().err
    assert said == "chaos: a bug of the harness: LookupError: no such thing (-v shows where)\n"
    assert main(["run", "-v", "x"]) == Exit.INCONCLUSIVE
    assert "in break_down" in capsys.readouterr().err


def test_a_file_that_is_no_journal_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").touch()
    assert main(["judge", str(tmp_path / "README.md")]) == Exit.USAGE
    assert "README.md: no such run; give its folder or its journal.jsonl" in capsys.readouterr().err
