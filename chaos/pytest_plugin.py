"""For pytest: experiment files as tests (`pytest experiments/ --chaos`), and the fixture `chaos_run`.

Nothing but pytest and the standard library is imported until an experiment is collected or the fixture is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from chaos.cli.once import Ran
    from chaos.experiment import Experiment

_SUFFIXES = (".yaml", ".yml")
_ENDS_ALL = (4, 130, 143)  # a heal that failed, and interruptions: nothing more is to be broken after them


class ExperimentFailed(Exception):
    """A run that is no pass; `ran` holds its result, its history and its folder. An inconclusive run proves nothing, so
    it is no pass either."""

    def __init__(self, ran: Ran, told: str) -> None:
        self.ran = ran
        super().__init__(told)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; all begin with `--chaos`."""
    group = parser.getgroup("chaos", "experiments of recovery")
    group.addoption("--chaos", action="store_true", help="collect experiment files (*.yaml) as tests, and run them")
    group.addoption(
        "--chaos-out", default="runs", metavar="DIR", help="where the runs' folders and the results store go"
    )
    group.addoption(
        "--chaos-set", action="append", default=[], metavar="NAME=VALUE", help="override a setting of the target"
    )
    group.addoption("--chaos-seed", type=int, metavar="N", help="override the seed")
    group.addoption("--chaos-no-lab", action="store_true", help="no namespaces: process faults only")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A YAML file that is an experiment; one that was named on the command line is taken for one."""
    if not parent.config.getoption("--chaos") or file_path.suffix not in _SUFFIXES:
        return None
    if not parent.session.isinitpath(file_path) and not _looks_like_one(file_path):
        return None
    collected: ExperimentFile = ExperimentFile.from_parent(parent, path=file_path)
    return collected


def _looks_like_one(path: Path) -> bool:
    """Whether the file has the two keys that every experiment has.

    One that cannot be read as YAML but speaks of them is one too: its mistakes must be told, not skipped.
    """
    import yaml

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return False
    if "target" not in text or "method" not in text:
        return False
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return True
    if not isinstance(root, yaml.MappingNode):
        return False
    # A key of somebody else's file may be a list or a mapping.
    return {"target", "method"} <= {key.value for key, _ in root.value if isinstance(key, yaml.ScalarNode)}


class ExperimentFile(pytest.File):
    """One experiment, as one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """The test, by the experiment's name; its tags are keywords for `-k`."""
        from chaos.errors import ChaosError

        try:
            experiment = _load(self.path, self.config, {})
        except ChaosError as error:
            raise self.CollectError(str(error)) from error
        yield ExperimentItem.from_parent(self, name=experiment.name, experiment=experiment)


class ExperimentItem(pytest.Item):
    """Runs the experiment; its verdict is the test's."""

    def __init__(self, *, experiment: Experiment, **rest: Any) -> None:
        super().__init__(**rest)
        self._experiment = experiment
        self.extra_keyword_matches.update(experiment.tags)

    def runtest(self) -> None:
        """ExperimentFailed unless it passed."""
        ran = _run(self._experiment, self.config, _overrides(self.config))
        self.user_properties += [("chaos.run", str(ran.folder)), ("chaos.headline", ran.result.headline)]
        self.add_report_section("call", "chaos", _summary(ran))
        if ran.result.exit in _ENDS_ALL:
            self.session.shouldstop = f"{self._experiment.name}: {ran.result.headline}"
        if ran.result.exit:
            raise ExperimentFailed(ran, f"{ran.result.headline}\n{ran.files.get('report', ran.folder)}")

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> str | Any:  # `Any`: the type of pytest's own is private
        """The verdict's reason; a traceback only for what is no verdict."""
        from chaos.errors import ChaosError

        if isinstance(excinfo.value, ExperimentFailed):
            return f"{excinfo.value.ran.result.outcome.value}: {excinfo.value}"
        if isinstance(excinfo.value, ChaosError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where it stands."""
        return self.path, 0, f"{self.name}: {self._experiment.title}"


@pytest.fixture
def chaos_run(request: pytest.FixtureRequest) -> Callable[..., Ran]:
    """A function that runs an experiment and hands back what it left: `ran.history` to assert on, `ran.result` with
    checks and measured recoveries, `ran.folder`.

    `chaos_run(path, *, seed=None, inconclusive=False, **settings)`: `path` counts from the test's file; `settings` are
    put over the experiment's. A failed run is handed back as well: what it may fail is the test's to say. An
    inconclusive one raises ExperimentFailed unless `inconclusive` is true, as what it lacks proves nothing.
    """

    def run(path: str | Path, *, seed: int | None = None, inconclusive: bool = False, **settings: object) -> Ran:
        overrides = _overrides(request.config) | {name: _text(value) for name, value in settings.items()}
        experiment = _load(request.path.parent / path, request.config, overrides, seed)
        ran = _run(experiment, request.config, overrides)
        request.node.add_report_section("call", "chaos", _summary(ran))
        if ran.result.exit in _ENDS_ALL:
            request.session.shouldstop = f"{experiment.name}: {ran.result.headline}"
        if ran.result.exit in _ENDS_ALL or (ran.result.exit == 3 and not inconclusive):
            raise ExperimentFailed(ran, f"{ran.result.outcome.value}: {ran.result.headline}")
        return ran

    return run


def _load(path: Path, config: pytest.Config, overrides: Mapping[str, str], seed: int | None = None) -> Experiment:
    from chaos.load import load_experiment

    chosen = seed if seed is not None else config.getoption("--chaos-seed")
    return load_experiment(str(path), overrides=dict(overrides) or _overrides(config), seed=chosen)


def _run(experiment: Experiment, config: pytest.Config, overrides: Mapping[str, str]) -> Ran:
    from chaos.cli.once import Variation, alone, new_folder, run_in
    from chaos.plan import plan
    from chaos.report.console import Console, Show

    _need_the_main_thread()
    variation = Variation(overrides, not config.getoption("--chaos-no-lab"))
    schedule = plan(experiment)
    out = Path(config.rootpath, config.getoption("--chaos-out"))
    with alone(experiment, variation.lab):
        folder = new_folder(out, experiment.name)
        console = Console(experiment.title, wall=experiment.limits.wall, file=sys.stdout, show=Show.QUIET)
        ran = run_in(folder, experiment, schedule, variation, console)
    if ran.how.signal is not None and ran.result.exit == 130:
        raise KeyboardInterrupt  # healed and judged; now pytest is to end as it was asked to
    return ran


def _need_the_main_thread() -> None:
    """A run blocks, has an event loop of its own, and listens to signals so that Ctrl-C heals first."""
    import asyncio
    import threading

    from chaos.errors import TargetError

    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise TargetError(
            "an experiment cannot run inside of an event loop: call `chaos_run` from a plain `def test_…`"
        )
    if threading.current_thread() is not threading.main_thread():
        raise TargetError("an experiment runs in the main thread only: there it hears Ctrl-C, and heals")


def _summary(ran: Ran) -> str:
    from chaos.report.summary import summary

    return summary(ran.result, ran.history, files=dict(ran.files), width=100, color=False)


def _overrides(config: pytest.Config) -> dict[str, str]:
    pairs = [text.partition("=") for text in config.getoption("--chaos-set")]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise pytest.UsageError(f"--chaos-set {name}: expected NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _text(value: object) -> str:
    """A setting as the command line would take it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
