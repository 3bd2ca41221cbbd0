"""The schedule in the words of other schedulers."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import yaml

from chaos.errors import GameDayError
from chaos.gameday.export import export, on_calendar
from chaos.gameday.terms import Missed, Timetable

from .fakes import plan

COMMAND = ("/opt/my env/chaos", "gameday", "run", "/p/50%.yaml", "--now")


def text(kind: str, cron: str = "0 10 * * 5", missed: Missed = "late") -> str:
    timetable = Timetable(cron=cron, timezone="Europe/Berlin", missed=missed, grace=1800.0)
    return export(plan(timetable=timetable), kind, COMMAND, "/srv/game days")


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 10 * * fri", "Fri *-*-* 10:00:00 Europe/Berlin"),
        ("30 9 * * 1-5", "Mon,Tue,Wed,Thu,Fri *-*-* 09:30:00 Europe/Berlin"),
        ("*/15 * * * *", "*-*-* *:00/15:00 Europe/Berlin"),
        ("0 8-16/4 1,15 * *", "*-*-01,15 08..16/4:00:00 Europe/Berlin"),
        ("0 0 1 jan-mar *", "*-01..03-01 00:00:00 Europe/Berlin"),
        ("5 4 */2 * *", "*-*-01/2 04:05:00 Europe/Berlin"),
    ],
)
def test_a_cron_line_in_the_words_of_systemd(cron: str, expected: str) -> None:
    found = on_calendar(Timetable(cron=cron, timezone="Europe/Berlin"))
    assert found == expected
    if shutil.which("systemd-analyze"):
        subprocess.run(["systemd-analyze", "calendar", found], check=True, capture_output=True)


def test_a_day_that_systemd_has_no_word_for_is_refused() -> None:
    with pytest.raises(GameDayError, match="last"):
        on_calendar(Timetable(cron="0 10 last * *"))


def test_a_systemd_service_leaves_its_experiment_alone_and_catches_up() -> None:
    units = text("systemd")
    assert "ExecStart='/opt/my env/chaos' gameday run /p/50%%.yaml --now\n" in units
    assert "KillMode=process" in units
    assert "Restart=on-abnormal" in units
    assert "Persistent=true" in units
    assert "Persistent=false" in text("systemd", missed="report")


def test_a_crontab_line_has_its_zone_and_no_bare_percent() -> None:
    lines = text("cron").splitlines()
    assert lines[1].startswith("# CRON_TZ is heeded by cronie")
    assert lines[2] == "CRON_TZ=Europe/Berlin"
    assert lines[3] == r"0 10 * * 5 cd '/srv/game days' && '/opt/my env/chaos' gameday run /p/50\%.yaml --now"


def test_a_kubernetes_job_has_its_zone_and_never_two() -> None:
    job = yaml.safe_load(text("kubernetes"))
    assert job["metadata"]["name"] == "chaos-day"
    spec = job["spec"]
    assert (spec["schedule"], spec["timeZone"]) == ("0 10 * * fri", "Europe/Berlin")
    assert (spec["concurrencyPolicy"], spec["startingDeadlineSeconds"]) == ("Forbid", 1800)
    (container,) = spec["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert tuple(container["command"]) == COMMAND


def test_a_plan_without_a_schedule_has_nothing_to_export() -> None:
    with pytest.raises(GameDayError, match="no `schedule`"):
        export(plan(), "cron", COMMAND, "/srv")
