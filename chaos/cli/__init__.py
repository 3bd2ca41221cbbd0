"""The command line: the only place that prints and exits. Everything a verb needs is imported when it is used."""

from __future__ import annotations

import argparse
import gc
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

from chaos import __version__
from chaos.cli.output import columns, patient
from chaos.errors import ChaosError, Exit, SpecError

EXITS = """exit codes: 0 pass · 1 a hypothesis, budget or invariant failed · 2 the file or the call is wrong ·
3 inconclusive · 4 a heal failed · 130 interrupted (healed first)"""


def parser(only: str = "") -> argparse.ArgumentParser:
    """The verbs and their options; of one verb `only`, where it is one: the others cost it start-up."""
    top = argparse.ArgumentParser(
        prog="chaos", description="Proves that ML systems recover.", epilog=EXITS, formatter_class=_Help
    )
    top.add_argument("--version", action="version", version=f"mlchaos {__version__}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB", prog="chaos")
    for name in [only] if only in VERBS else VERBS:
        verb = VERBS[name]
        added = verbs.add_parser(name, help=verb.text, description=verb.text, formatter_class=_Help)
        added.set_defaults(where=verb.where)
        verb.options(added)
    return top


class _Help(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal, found without `shutil`, whose import takes longer than all that is parsed."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns() - 2)


class Verb(NamedTuple):
    """A module of this package, what the verb does, and its options."""

    where: str
    text: str
    options: Callable[[argparse.ArgumentParser], object]


def _run(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("files", nargs="+", metavar="FILE", help="experiment files")
    _variation(verb)
    verb.add_argument("--repeat", type=_count, default=1, metavar="N", help="run each N times; adds the spread")
    verb.add_argument("--out", default="runs", metavar="DIR", help="where the runs' folders go (default: runs)")
    verb.add_argument("--plan", action="store_true", help="show members, moments and limits; run nothing")
    verb.add_argument("--no-lab", action="store_true", help="no namespaces: process faults only")
    loud = verb.add_mutually_exclusive_group()
    loud.add_argument("-q", "--quiet", action="store_true", help="only the end")
    loud.add_argument("-v", "--verbose", action="store_true", help="every event, and tracebacks")


def _validate(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("files", nargs="+", metavar="FILE")
    _variation(verb)


def _list(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("group", nargs="?", choices=("faults", "probes", "invariants", "drivers"))


def _explain(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("kind", metavar="KIND", help="such as network.partition or fenced-writer")


def _doctor(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--json", action="store_true", help="as JSON")


def _undo(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("runs", nargs="*", metavar="RUN", help="folders of runs (default: all in ./runs)")


def _gameday(verb: argparse.ArgumentParser) -> None:
    commands = verb.add_subparsers(dest="command", required=True, metavar="COMMAND", prog="chaos gameday")

    def command(name: str, text: str, *, plan: str = "?") -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text, formatter_class=_Help)
        if name == "note":
            added.add_argument("text", metavar="TEXT", help="what was seen")
        added.add_argument("plan", nargs=plan if plan == "?" else None, metavar="PLAN", help="the plan's file")
        added.add_argument("--state", metavar="FILE", help="its state (default: below $XDG_STATE_HOME/chaos)")
        return added

    run = command("run", "wait for the schedule, run each day, write its report", plan="1")
    run.add_argument("--now", action="store_true", help="begin at once, or take up the day that was cut off; then end")
    run.add_argument("--once", action="store_true", help="end after the first day")
    run.add_argument("--out", default="runs", metavar="DIR", help="where the day's folder goes (default: runs)")
    preview = command("plan", "show the next starts, the drawn order and how far each reaches; run nothing", plan="1")
    preview.add_argument("--seed", type=int, metavar="N", help="of the dice, where the plan gives none")
    preview.add_argument("--export", choices=("systemd", "cron", "kubernetes"), help="print units for that scheduler")
    status = command("status", "what runs, what is asked, how far the day is")
    status.add_argument("--json", metavar="FILE", help="write all of it to FILE; - is this terminal, instead of text")
    for name, text in _ORDERS.items():
        order = command(name, text)
        order.add_argument("--by", metavar="NAME", help="who says so (default: the user)")
        if name in ("abort", "pause"):
            order.add_argument("-m", "--text", metavar="TEXT", help="why, for the timeline")
    report = command("report", "write the report of a day again")
    report.add_argument("--day", type=int, metavar="N", help="which (default: the last)")
    switch = commands.add_parser("kill-all", help=_KILL_ALL, description=_KILL_ALL, formatter_class=_Help)
    switch.add_argument("--by", metavar="NAME", help="who says so (default: the user)")


_KILL_ALL = "end every game day of yours on this machine and whatever it runs, healed"
_ORDERS = {
    "pause": "begin nothing further until `resume`; what runs goes on",
    "resume": "go on after a pause, or after a heal that failed was undone by hand",
    "abort": "end the day: what runs heals and ends, the rest is not run",
    "approve": "say yes to what is asked",
    "reject": "say no to what is asked",
    "note": "add an observer's note to the timeline",
}


def _recorded(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("run", metavar="RUN", help="a run's folder, or its journal.jsonl")


def _report(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("runs", nargs="*", metavar="RUN", help="a run's folder, or its journal.jsonl; two are compared")
    verb.add_argument("--repeats", action="store_true", help="the runs are repeats of one experiment: show the spread")
    verb.add_argument(
        "--index", nargs="?", const="runs", metavar="DIR",
        help="write DIR/index.html: all runs, and what is proved of which build (default: runs)",
    )  # fmt: skip
    verb.add_argument("--out", metavar="FILE", help="where a comparison or the repeats go (default: beside the runs)")


def _paths(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("target", metavar="TARGET", help="a target file, or the folder of its target.yaml")
    verb.add_argument("--json", action="store_true", help="as JSON")
    verb.add_argument("--sarif", metavar="FILE", help="what there is to mend, as SARIF 2.1.0")
    verb.add_argument(
        "--coverage", nargs="+", action="extend", default=[], metavar="FILE",
        help="coverage.py data of runs: which paths with `code:` were taken",
    )  # fmt: skip


def _gate(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--catalogue", default="ci/recovery_paths.yaml", metavar="FILE",
        help="what must be proved (default: ci/recovery_paths.yaml)",
    )  # fmt: skip
    _stores(verb)
    verb.add_argument(
        "--since", action="append", default=[], metavar="FILE",
        help="`chaos paths --json` of the last release: says what appeared and what vanished",
    )  # fmt: skip
    verb.add_argument(
        "--add", action="append", default=[], metavar="TARGET:PATH=FILE", help="list an experiment for a path, and end"
    )
    verb.add_argument(
        "--remove", action="append", default=[], metavar="TARGET:PATH", help="take a path out of the catalogue, and end"
    )
    for name, text in (
        ("junit", "a test case a path"), ("markdown", "for a comment on a pull request"), ("json", "all of it"),
        ("sarif", "for code scanning"), ("badge", "an SVG"),
    ):  # fmt: skip
        verb.add_argument(f"--{name}", metavar="FILE", help=f"write the decision to FILE: {text}")
    verb.add_argument(
        "--verify", action="store_true",
        help="judge the runs that the decision rests on again, where their folders are still there",
    )  # fmt: skip
    verb.add_argument("-q", "--quiet", action="store_true", help="only the verdict and what would open it")


def _stores(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--store", action="append", default=[], metavar="FILE",
        help="a results store (default: runs/results.sqlite); several are taken together",
    )  # fmt: skip
    verb.add_argument(
        "--runs", action="append", default=[], metavar="DIR",
        help="a folder of runs: those that its store does not know are judged",
    )  # fmt: skip


def _trend(verb: argparse.ArgumentParser) -> None:
    _stores(verb)
    for name, text in (
        ("target", "only runs of this target"), ("experiment", "only runs of this experiment"),
        ("figure", "rto.total, rpo.steps, …, or rto or rpo for all of them (default: rto.total and rpo.steps)"),
    ):  # fmt: skip
        verb.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help=f"{text}; may be repeated")
    verb.add_argument("--json", action="store_true", help="as JSON")
    verb.add_argument("--fail-on-regression", action="store_true", help="exit with 1 where something became worse")


VERBS = {
    "run": Verb("running", "run experiments and judge them", _run),
    "validate": Verb("asking", "check experiment files; all mistakes at once", _validate),
    "schema": Verb("asking", "print the JSON Schema of the experiment file", lambda _: None),
    "list": Verb("asking", "list faults, probes, invariants and drivers", _list),
    "explain": Verb("asking", "what a fault, probe, invariant or driver does and promises", _explain),
    "doctor": Verb("asking", "what this machine can do, and how to mend what it cannot", _doctor),
    "undo": Verb("undoing", "heal what a dead run left outside its lab", _undo),
    "gameday": Verb("gameday", "game days that run by themselves, from a plan", _gameday),
    "judge": Verb("again", "judge a recorded run again", _recorded),
    "report": Verb("reporting", "judge again and write the report; compare runs; index them all", _report),
    "gate": Verb("gating", "say whether every recovery path is proved: 0 yes, 1 no, 3 no data", _gate),
    "trend": Verb("trending", "what recoveries cost from build to build, and what became worse", _trend),
    "paths": Verb("paths", "list a target's recovery paths, and failure handling that is none", _paths),
}


def _variation(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="override a setting of the target"
    )
    verb.add_argument("--seed", type=int, metavar="N", help="override the seed")


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs; give 1 or more")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code, whatever becomes of what is printed."""
    with patient():
        words = sys.argv[1:] if arguments is None else arguments
        code = _main(parser(only=words[0] if words else "").parse_args(words))
    if arguments is None:
        gc.freeze()  # the program ends here: what the system is about to reclaim need not be searched for cycles
    return code


def _main(call: argparse.Namespace) -> int:
    try:
        code: int = import_module(f"chaos.cli.{call.where}").main(call)
        return code
    except ChaosError as error:
        located = isinstance(error, SpecError) and error.problems[0].path  # which editors and CI look for
        print(error if located else f"chaos: {error}", file=sys.stderr)
        return error.exit
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as error:
        if isinstance(error, PermissionError) and error.filename:  # of a place that the call names
            print(f"chaos: {error.filename}: {error.strerror}", file=sys.stderr)
            return Exit.USAGE
        quiet = not getattr(call, "verbose", True)  # a verb without `-v` says where at once
        if not quiet:
            traceback.print_exc()
        hint = " (-v shows where)" if quiet else ""
        print(f"chaos: a bug of the harness: {type(error).__name__}: {error}{hint}", file=sys.stderr)
        return Exit.INCONCLUSIVE
