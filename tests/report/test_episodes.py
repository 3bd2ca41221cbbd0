"""The bar of a recovery: its pieces, and what is no piece of it."""

from __future__ import annotations

import msgspec

from chaos.report.episodes import episodes
from chaos.result import Need, Recovery

from .scripted import result_of, serving_run


def test_a_failure_that_was_noticed_and_that_no_client_felt_has_no_piece_after_detection() -> None:
    pieces = []
    for total in (0.0, 0.9):
        served = Recovery(
            need=Need.FAILURE, faults=("process.kill",), serving=True, complete=True, detect=0.04, total=total
        )
        result = msgspec.structs.replace(result_of(serving_run()), recoveries=(served,))
        (episode,) = episodes(result, end=20.0)
        pieces.append([segment.label for segment in episode.segments])
    assert pieces == [["detect"], ["detect", "until served as before"]]
