"""A target may put anything into a field: neither the console nor the page may break over it."""

from __future__ import annotations

import io
import itertools
from typing import Any

import pytest

from chaos.history import Event, History
from chaos.report.console import Console, Show
from chaos.report.lines import _LINES
from chaos.report.page import Background, encode
from chaos.report.summary import summary

from .scripted import Script, partition_run, result_of

FIELDS = (
    *("member", "members", "nodes", "sides", "node", "role", "rank", "pid", "code", "kind", "evidence", "instant"),
    *("seconds", "step", "steps", "epoch", "generation", "loss", "samples", "value", "holder", "alive", "experiment"),
    *("seed", "settings", "expected", "name", "world", "reason", "mechanisms"),
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    7,
    -1.5,
    "text",
    [],
    [1, None],
    [["a"], 3],
    {"deep": {"x": [1]}},
    float("nan"),
    10**30,
)


@pytest.fixture(scope="module")
def odd() -> list[Event]:
    tell = Script()
    tell.events = partition_run()
    for kind, value in itertools.product(sorted({*_LINES, "job.started", "checkpoint.saved"}), VALUES):
        tell(15.0, "worker-n0", kind, **dict.fromkeys(FIELDS, value))
    return tell.events


@pytest.mark.parametrize("terminal", [True, False])
def test_the_console_takes_any_event(odd: list[Event], terminal: bool) -> None:
    with Console("x", wall=10, file=io.StringIO(), terminal=terminal, show=Show.NORMAL) as console:
        for event in odd:
            console.event(event)
            if terminal:
                console.picture()


def test_the_reports_take_any_event(odd: list[Event]) -> None:
    result = result_of(partition_run())
    assert encode(result, History(odd), Background())
    assert summary(result, History(odd))
