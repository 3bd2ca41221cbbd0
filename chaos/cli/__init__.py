"""The command line: the only place that prints and exits. Everything a verb needs is imported when it is used."""

from __future__ import annotations

import argparse
import gc
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from chaos import __version__
from chaos.cli.output import patient
from chaos.errors import ChaosError, Exit, SpecError

EXITS = """exit codes: 0 pass · 1 a hypothesis, budget or invariant failed · 2 the file or the call is wrong ·
3 inconclusive · 4 a heal failed · 130 interrupted (healed first)"""


def parser() -> argparse.ArgumentParser:
    """The verbs and their options."""
    top = argparse.ArgumentParser(
        prog="chaos", description="Proves that ML systems recover.", epilog=EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"mlchaos {__version__}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB", prog="chaos")

    def verb(name: str, where: str, text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text)
        added.set_defaults(where=where)
        return added

    run = verb("run", "running", "run experiments and judge them")
    run.add_argument("files", nargs="+", metavar="FILE", help="experiment files")
    _variation(run)
    run.add_argument("--repeat", type=_count, default=1, metavar="N", help="run each N times; adds the spread")
    run.add_argument("--out", default="runs", metavar="DIR", help="where the runs' folders go (default: runs)")
    run.add_argument("--plan", action="store_true", help="show members, moments and limits; run nothing")
    run.add_argument("--no-lab", action="store_true", help="no namespaces: process faults only")
    loud = run.add_mutually_exclusive_group()
    loud.add_argument("-q", "--quiet", action="store_true", help="only the end")
    loud.add_argument("-v", "--verbose", action="store_true", help="every event, and tracebacks")

    validate = verb("validate", "asking", "check experiment files; all mistakes at once")
    validate.add_argument("files", nargs="+", metavar="FILE")
    _variation(validate)
    verb("schema", "asking", "print the JSON Schema of the experiment file")
    kinds = verb("list", "asking", "list faults, probes, invariants and drivers")
    kinds.add_argument("group", nargs="?", choices=("faults", "probes", "invariants", "drivers"))
    explain = verb("explain", "asking", "what a fault, probe, invariant or driver does and promises")
    explain.add_argument("kind", metavar="KIND", help="such as network.partition or fenced-writer")
    doctor = verb("doctor", "asking", "what this machine can do, and how to mend what it cannot")
    doctor.add_argument("--json", action="store_true", help="as JSON")

    for name, text in (("judge", "judge a recorded run again"), ("report", "judge again and write the reports")):
        again = verb(name, "again", text)
        again.add_argument("run", metavar="RUN", help="a run's folder, or its journal.jsonl")
    return top


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
        code = _main(parser().parse_args(arguments))
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
        if getattr(call, "verbose", False):
            traceback.print_exc()
        print(f"chaos: a bug of the harness: {type(error).__name__}: {error} (-v shows where)", file=sys.stderr)
        return Exit.INCONCLUSIVE
