"""The schedule for another scheduler: a systemd timer, a crontab line, a Kubernetes CronJob; each in its time zone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from chaos.errors import GameDayError
from chaos.gameday.terms import Plan, Timetable
from chaos.gameday.timetable import weekdays

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def export(plan: Plan, kind: str, command: Sequence[str], folder: str) -> str:
    """The text for `kind`; each start runs `command` in `folder`. GameDayError where that scheduler cannot say it."""
    timetable = plan.timetable
    if timetable is None:
        raise GameDayError(f"{plan.path}: no `schedule` to export")
    made = {"systemd": _systemd, "cron": _cron, "kubernetes": _kubernetes}[kind]
    return made(plan, timetable, command, folder)


def _systemd(plan: Plan, timetable: Timetable, command: Sequence[str], folder: str) -> str:
    name = _name(plan)
    words = shlex.join(command).replace("%", "%%")
    return f"""# ~/.config/systemd/user/{name}.service
[Unit]
Description={plan.title.replace("%", "%%")}

[Service]
Type=exec
WorkingDirectory={folder.replace("%", "%%")}
ExecStart={words}
# A stop lets the experiment heal; of a service that was killed, the experiment goes on and is found again.
KillMode=process
TimeoutStopSec=120
# Killed, out of memory: started again, it takes up its day. An abort (exit 130, 143) stays one.
Restart=on-abnormal
RestartSec=5

# ~/.config/systemd/user/{name}.timer
[Unit]
Description={plan.title.replace("%", "%%")}: {timetable.cron}

[Timer]
OnCalendar={on_calendar(timetable)}
Persistent={str(timetable.missed == "late").lower()}

[Install]
WantedBy=timers.target
"""


def on_calendar(timetable: Timetable) -> str:
    """The cron line in systemd's words."""
    minute, hour, day, month, weekday = timetable.cron.split()
    if re.search(r"[a-z#L]", day):
        raise GameDayError(f"`{timetable.cron}`: systemd has no word for the day `{day}`")
    names = weekdays(weekday)
    days = "" if names == "*" else ",".join(word.capitalize() for word in names.split(",")) + " "
    dates = f"*-{_span(_numbered(month), 1)}-{_span(day, 1)}"
    return f"{days}{dates} {_span(hour, 0)}:{_span(minute, 0)}:00 {timetable.timezone}"


def _numbered(month: str) -> str:
    return re.sub(r"[a-z]{3}", lambda m: str(_MONTHS.index(m[0]) + 1), month.lower())


def _span(field: str, first: int) -> str:
    """`1-5` → `01..05`, `*/15` → `00/15`: steps count from the field's first value."""
    parts = []
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        base = "*" if low == "*" else f"{int(low):02}" + (f"..{int(high):02}" if high else "")
        parts.append(base if not step else f"{f'{first:02}' if base == '*' else base}/{step}")
    return ",".join(parts)


def _cron(plan: Plan, timetable: Timetable, command: Sequence[str], folder: str) -> str:
    line = f"cd {shlex.quote(folder)} && {shlex.join(command)}".replace("%", "\\%")
    warning = "# CRON_TZ is heeded by cronie; Debian's cron does not know it and starts by the machine's time."
    zone = f"{warning}\nCRON_TZ={timetable.timezone}"
    return f"# {plan.title}\n{zone}\n{timetable.cron} {line}\n"


def _kubernetes(plan: Plan, timetable: Timetable, command: Sequence[str], folder: str) -> str:
    late = f"  startingDeadlineSeconds: {timetable.grace:.0f}\n" if timetable.missed == "late" else ""
    words = "\n".join(f"                - {_quoted(word)}" for word in command)
    return f"""apiVersion: batch/v1
kind: CronJob
metadata:
  name: {_name(plan)}
spec:
  schedule: {_quoted(_days_named(timetable.cron))}
  timeZone: {_quoted(timetable.timezone)}
  concurrencyPolicy: Forbid
{late}  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        spec:
          restartPolicy: Never
          terminationGracePeriodSeconds: 120
          containers:
            - name: gameday
              image: REGISTRY/IMAGE:TAG   # one with chaos and the targets in it
              workingDir: {_quoted(folder)}
              env:
                - name: XDG_STATE_HOME    # on a volume that lasts: a day that was cut off goes on from it
                  value: /state
              command:
{words}
"""


def _days_named(cron: str) -> str:
    *rest, weekday = cron.split()
    return " ".join((*rest, weekdays(weekday)))


def _quoted(word: str) -> str:
    """As a YAML string."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _name(plan: Plan) -> str:
    """Lower-case letters, digits and dashes, as units and Kubernetes objects are named."""
    return f"chaos-{re.sub(r'[^a-z0-9]+', '-', plan.name.lower()).strip('-') or 'gameday'}"
