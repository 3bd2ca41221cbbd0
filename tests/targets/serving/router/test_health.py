"""Three levels of health, by what polls find."""

from __future__ import annotations

from targets.serving.router.health import Finding, Health

HIT = Finding()


def healthy(out: int = 2, back: int = 2) -> Health:
    health = Health(out=out, back=back)
    for _ in range(back):
        health.observe(HIT)
    return health


def test_nobody_is_fit_before_it_was_seen_often_enough() -> None:
    health = Health(out=2, back=2)
    assert health.observe(HIT) == []
    assert not health.up
    changes = health.observe(HIT)
    assert [(change.level, change.up) for change in changes] == [("live", True), ("ready", True), ("correct", True)]
    assert health.up


def test_one_miss_is_none_and_two_in_a_row_take_a_level_out() -> None:
    health = healthy()
    for finding in (Finding("ready", "503"), HIT, Finding("ready", "503")):
        assert health.observe(finding) == []
    changes = health.observe(Finding("ready", "503"))
    assert [(change.level, change.up, change.reason) for change in changes] == [
        ("ready", False, "503"),
        ("correct", False, "not ready"),
    ]
    assert health.levels == {"live": True, "ready": False, "correct": False}


def test_a_wrong_answer_to_the_known_question_takes_out_what_lives_and_is_ready() -> None:
    health = healthy()
    health.observe(Finding("correct", "503"))
    (change,) = health.observe(Finding("correct", "503"))
    assert change.level == "correct"
    assert not health.up


def test_a_process_that_died_and_came_back_must_be_ready_anew() -> None:
    health = healthy()
    for _ in range(2):
        health.observe(Finding("live", "refused"))
    assert health.levels == {"live": False, "ready": False, "correct": False}
    health.observe(Finding("ready", "loading"))
    assert [change.level for change in health.observe(Finding("ready", "loading"))] == ["live"]
    assert not health.up
    health.observe(HIT)
    assert not health.up
    health.observe(HIT)
    assert health.up


def test_who_says_that_it_drains_is_believed_at_once() -> None:
    health = healthy()
    changes = health.observe(Finding("ready", "draining", draining=True))
    assert [change.level for change in changes] == ["ready", "correct"]
