"""The pipelines to copy: they are YAML, and every `chaos …` line in them is one that the command line takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.cli import parser

EXAMPLES = Path(__file__).parents[2] / "ci/examples"
NAMES = ("github.yml", "gitlab.yml")


def texts(node: Any, keys: tuple[str, ...]) -> Iterator[str]:
    """Every script in the file: strings below one of the keys."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in keys:
                yield from [value] if isinstance(value, str) else map(str, value)
            else:
                yield from texts(value, keys)
    elif isinstance(node, list):
        for item in node:
            yield from texts(item, keys)


def calls(text: str) -> list[list[str]]:
    """The `chaos …` commands of a script, without what the shell does with their exit code."""
    lines = [re.split(r"\|\||&&", line)[0].strip() for line in text.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("chaos ")]


def scripts(name: str) -> list[str]:
    return list(
        texts(yaml.safe_load((EXAMPLES / name).read_text()), ("run", "script", "before_script", "after_script"))
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_command_is_one_that_there_is(name: str) -> None:
    found = [words for text in scripts(name) for words in calls(text)]
    assert {words[0] for words in found} == {"doctor", "gate", "trend"}
    for words in found:
        parser(only=words[0]).parse_args(words)
    options = {word for words in found for word in words}
    assert {"--junit", "--markdown", "--sarif", "--badge", "--fail-on-regression"} <= options


@pytest.mark.parametrize("name", NAMES)
def test_a_gate_that_is_not_open_ends_its_job(name: str) -> None:
    """One line of the gate has nothing behind it that would make its exit code good."""
    lines = [line.strip() for text in scripts(name) for line in text.splitlines() if "chaos gate" in line]
    assert [line for line in lines if "--junit" in line and "||" not in line]
    assert all("test $? -ne 2" in line for line in lines if "||" in line)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_was_written(name: str) -> None:
    written = {word for text in scripts(name) for words in calls(text) for word in words if "." in word}
    text = (EXAMPLES / name).read_text()
    for file in ("gate.xml", "gate.md", "gate.sarif", "badge.svg"):
        assert file in written
        assert len(re.findall(rf"\b{re.escape(file)}\b", text)) >= 2, f"{file} is written and shown nowhere"
    assert "runs/results.sqlite" in text


def test_actions_are_pinned_by_version() -> None:
    used = re.findall(r"uses: (\S+)", (EXAMPLES / "github.yml").read_text())
    assert used
    assert all(re.fullmatch(r"[\w.-]+/[\w./-]+@v\d+(\.\d+)*", action) for action in used), used


@pytest.mark.parametrize("name", NAMES)
def test_the_programs_in_them_compile(name: str) -> None:
    found = [p for text in scripts(name) for p in re.findall(r"<<'PYTHON'\n(.*?)^\s*PYTHON$", text, re.DOTALL | re.M)]
    assert found
    for program in found:
        compile(program, name, "exec")
