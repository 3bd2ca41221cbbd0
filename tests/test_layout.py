"""Which folder of a target is which generation."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from chaos.layout import Layout


def test_generations_are_found_by_number_and_strangers_are_not(tmp_path: Path) -> None:
    for name in ("run/step-9", "run/step-10", "run/step-x", "run/step-11.tmp", "step-12"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "run/step-13").touch()
    layout = Layout(generation="run/step-{number}")
    assert [(g.number, g.digits) for g in layout.all(tmp_path)] == [(9, "9"), (10, "10")]
    assert layout.find(tmp_path, "newest").number == 10


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ({"generation": "../gen-{number}"}, "`generation` is a path below a folder"),
        ({"generation": "gen"}, "once"),
        ({"generation": "gen-{number}", "marker": "/etc/passwd"}, "`marker` is a path below a folder"),
        ({"generation": "gen-{number}", "latest": ""}, "`latest` is a path below a folder"),
    ],
)
def test_a_layout_that_leads_elsewhere_is_refused(layout: dict[str, str], reason: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=reason):
        msgspec.convert(layout, Layout)
