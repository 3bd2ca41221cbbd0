"""The words of a page are explained: those of training, or those of a service."""

from __future__ import annotations

from chaos.history import Event, History
from chaos.report.glossary import glossary
from chaos.report.page import Background, encode
from chaos.result import Result


def test_training_speaks_of_lost_work_and_a_service_of_answers(history: History) -> None:
    training = dict(glossary(history))
    asked = Event(seq=0, t=0.0, wall=0.0, source="load", kind="request.sent", data={})
    serving = dict(glossary(History([asked])))
    assert {"RPO", "ETTR", "epoch", "warm-up"} <= training.keys() - serving.keys()
    assert {"degraded", "deadline"} <= serving.keys() - training.keys()
    assert training["generation"] != serving["generation"]
    assert training["unknown"] == serving["unknown"]


def test_the_page_has_every_word_with_its_meaning(result: Result, history: History) -> None:
    page = encode(result, history, Background()).decode()
    for word, meaning in glossary(history):
        assert f"<dt>{word}</dt><dd>{meaning}</dd>" in page
