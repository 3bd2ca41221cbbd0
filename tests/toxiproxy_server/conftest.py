"""One server for the tests of a file; each makes proxies of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .harness import Server, echo, serving, upstream


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--seed", "7", "--proxy-metrics") as running:
        yield running


@pytest.fixture
def echoing() -> Iterator[int]:
    with upstream(echo) as port:
        yield port
