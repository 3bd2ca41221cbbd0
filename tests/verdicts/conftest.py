"""The command line with misbehaving plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import Chaos, publish_mischief


@pytest.fixture(scope="session")
def mischief(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("plugins")
    publish_mischief(place)
    return place


@pytest.fixture
def chaos(mischief: Path, tmp_path: Path) -> Chaos:
    return Chaos(mischief, tmp_path)
