"""The table "Signals and crashes of the harness": heals come first, and nothing stays behind."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from drivers.conftest import need_user_namespaces

from chaos.history import History
from chaos.journal import read

from .harness import NO_LAB, Chaos, Run, step

pytestmark = pytest.mark.slow

LONG = {"steps": 100_000}
SOON = 5.0  # seconds; by how much sooner than this is in test_time.py
FREEZE = step("process.freeze", members={"names": ["worker"]}, hold="10s")
PARTITION = step("network.partition", between=[{"nodes": ["n0"]}, {"nodes": ["n1"]}], hold="10s")


def assert_closed(run: Run) -> None:
    """The journal has its end, and the reports were written."""
    assert run.history[-1].kind == "run.ended"
    assert run.history[-1].get("reason") == "interrupted"
    assert {"verdict.json", "junit.xml", "report.html"} <= {path.name for path in run.folder.iterdir()}


@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 130), (signal.SIGQUIT, 130)],
    ids=["TERM", "INT", "HUP", "QUIT"],
)
def test_a_signal_in_a_hold_heals_closes_the_journal_and_reports(
    chaos: Chaos, signum: signal.Signals, code: int
) -> None:
    lab = signum == signal.SIGTERM
    if lab:
        need_user_namespaces()
    method, words = ([FREEZE, PARTITION], []) if lab else ([FREEZE], [NO_LAB])
    with chaos.running(method, *words, settings=LONG) as run:
        run.until("fault.landed", nth=len(method))
        run.process.send_signal(signum)
        assert run.wait() == code, run.said
    interrupted = run.history.first("run.interrupted")
    healed = run.history.of("fault.healed")
    assert interrupted is not None
    assert interrupted.get("signal") == signum.name
    assert len(healed) == len(method)
    assert healed[0].t - interrupted.t < SOON
    assert_closed(run)


@pytest.mark.parametrize("moment", ["target.starting", "member.started", "probe.sampled", "final.started"])
def test_a_signal_at_any_other_moment_ends_the_run_as_well(chaos: Chaos, moment: str) -> None:
    never = {"probe": "process.alive", "at-least": 3, "every": "50ms"}
    steady = [] if moment == "final.started" else [never]
    settings = {"steps": 30} if moment == "final.started" else LONG
    with chaos.running([], NO_LAB, steady_state_hypothesis=steady, settings=settings) as run:
        run.until(moment)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 143, run.said
    assert run.history.first("run.interrupted")
    assert not run.history.of("fault.injecting")
    assert run.history[-1].kind == "run.ended"


def test_an_interrupt_from_the_terminal_is_for_the_harness_alone(chaos: Chaos) -> None:
    with chaos.running([FREEZE], NO_LAB, settings=LONG) as run:
        run.until("fault.landed")
        os.killpg(run.process.pid, signal.SIGINT)  # as Ctrl-C does
        assert run.wait() == 130, run.said
    exits = run.history.of("member.exited")
    assert [e.get("code") for e in exits] == [-signal.SIGTERM, -signal.SIGTERM]
    assert all(e.get("expected") for e in exits)
    assert_closed(run)


def test_a_signal_inside_an_injection_cuts_it_short_and_injects_nothing_more(chaos: Chaos) -> None:
    preempt = step("process.preempt", members={"names": ["worker"]}, grace="30s")
    late = step("mischief.long", "1h", takes="0s")
    with chaos.running([preempt, late], NO_LAB, settings={**LONG, "trouble": "stubborn"}) as run:
        run.until("fault.injecting")
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 143, run.said
    interrupted, gone = run.history.first("run.interrupted"), run.history.first("member.exited", member="worker")
    assert interrupted is not None
    assert gone is not None  # a preemption that is cut short kills at once, and so leaves nobody with half a notice
    assert gone.t - interrupted.t < SOON
    assert gone.get("code") == -signal.SIGKILL
    assert len(run.history.of("fault.injecting")) == 1
    assert_closed(run)


def test_a_second_signal_does_not_stop_a_heal_and_a_third_prints_what_is_left(chaos: Chaos) -> None:
    gate = chaos.place / "gate"
    os.mkfifo(gate)
    with chaos.running(
        [step("mischief.heal", how="waits", gate=str(gate))], NO_LAB, "--seed", "1", settings=LONG
    ) as run:
        run.until("fault.landed")
        for nth in (1, 2, 3):
            run.process.send_signal(signal.SIGTERM)
            run.until("run.interrupted", nth=nth)
        assert not run.history.of("fault.healed")
        gate.open("w").close()
        assert run.wait() == 143, run.said
    told, healed = run.said.find("not healed yet: undo mischief.heal on worker (pid "), run.said.find("healed in")
    assert 0 < told < healed
    assert_closed(run)


def test_a_hang_up_is_no_reason_to_end_under_nohup(chaos: Chaos) -> None:
    nohup = (
        sys.executable,
        "-S",
        "-c",
        "import os,signal,sys; signal.signal(1, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])",
    )
    with chaos.running([step("mischief.long", takes="0s")], NO_LAB, before=nohup) as run:
        run.until("method.started")
        run.process.send_signal(signal.SIGHUP)
        assert run.wait() == 0, run.said


@pytest.mark.parametrize(
    ("moment", "lab"),
    [
        ("target.starting", True),
        ("member.started", True),
        ("fault.injecting", True),
        ("fault.landed", True),
        ("fault.landed", False),
    ],
)
def test_a_killed_harness_leaves_nothing_and_a_journal_that_reads_to_its_last_event(
    chaos: Chaos, moment: str, lab: bool
) -> None:
    if lab:
        need_user_namespaces()
    method, words = ([FREEZE, PARTITION], []) if lab else ([FREEZE], [NO_LAB])
    with chaos.running(method, *words, settings=LONG) as run:
        run.until(moment, nth=len(method) if moment == "fault.landed" else 1)
        below = marked(run.out) - {run.process.pid}
        theirs = namespaces(below) - namespaces({os.getpid()})
        watched = list(open_all(below))
        run.process.kill()
        deadline = time.monotonic() + 2
        for process in watched:
            assert select.select([process], [], [], max(0, deadline - time.monotonic()))[0], "it outlived the harness"
            os.close(process)
    assert marked(run.out) == set()
    assert theirs & namespaces(living()) == set()  # and with them every mount and link that was in there
    assert len(theirs) >= 5 or not lab or moment == "target.starting"
    assert str(run.out) not in Path("/proc/self/mountinfo").read_text()
    history = History(read(run.folder / "journal.jsonl"))
    assert history.first(moment)
    judged = chaos.ask("judge", run.folder)
    assert judged.returncode == 3
    assert "the harness was killed" in judged.stdout


@pytest.mark.parametrize(
    ("fault", "code", "told"),
    [
        (FREEZE, 3, "process.freeze healed in"),
        (
            step("mischief.heal", how="fails"),
            4,
            "not healed: mischief.heal: the door is jammed; by hand: open the door",
        ),
    ],
    ids=["heals", "heal fails"],
)
def test_a_full_disk_while_journalling_heals_first_and_makes_the_run_inconclusive(
    chaos: Chaos, fault: dict[str, Any], code: int, told: str
) -> None:
    need_user_namespaces()
    small = (sys.executable, str(Path(__file__).with_name("small_disk.py")), str(chaos.out), "96")
    with chaos.running([fault], NO_LAB, before=small, settings={**LONG, "trouble": "flood"}) as run:
        assert run.wait() == code, run.said
    assert told in run.said
    assert "VERDICT PASS" not in run.said
    assert "No space left on device; `chaos report" in run.said
    run.out = Path(f"{chaos.out}-kept")
    assert run.history.first("fault.landed")
    assert not run.history.first("run.ended")


def open_all(processes: set[int]) -> Iterator[int]:
    """File descriptors that mean these processes, of those that are still there."""
    for pid in processes:
        with suppress(ProcessLookupError):
            yield os.pidfd_open(pid)


def living() -> set[int]:
    """Every process, but those that only wait for their parent to look."""
    return {
        int(p.name) for p in Path("/proc").glob("[0-9]*") if not look(p / "stat").rpartition(b")")[2].startswith(b" Z")
    }


def marked(folder: Path) -> set[int]:
    """Living processes that name the folder in their command line or environment."""
    mark = bytes(folder)
    return {pid for pid in living() for file in ("cmdline", "environ") if mark in look(Path(f"/proc/{pid}/{file}"))}


def namespaces(processes: set[int]) -> set[str]:
    """Network, mount, process and user namespaces that they are in."""
    found = set()
    for pid in processes:
        with suppress(OSError):  # it has gone, or is somebody else's
            found |= {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("net", "mnt", "pid", "user")}
    return found


def look(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
