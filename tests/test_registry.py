"""Kinds are found by file name and by entry point, and nothing is imported before it is asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from chaos.errors import PluginError
from chaos.registry import Registry, did_you_mean

PLUGIN = """
from chaos.api import Invariant
class {name}(Invariant, frozen=True, kw_only=True):
    \"\"\"A promise.\"\"\"
    id = "T0"
"""
_serial = count()
Publish = Callable[[str, str], None]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable, empty package of invariants with a name of its own."""
    folder = tmp_path / f"plugins_{next(_serial)}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def registry(package: Path) -> Registry:
    return Registry({"invariants": package.name}, entry_points=False)


def test_a_kind_follows_from_the_file(package: Path) -> None:
    (package / "fenced_writer.py").write_text(PLUGIN.format(name="FencedWriter"))
    (package / "deep").mkdir()
    (package / "deep" / "__init__.py").touch()
    (package / "deep" / "no_orphan.py").write_text(PLUGIN.format(name="NoOrphan"))
    (package / "_private.py").write_text("raise AssertionError('never imported')")
    found = registry(package)
    assert found.kinds("invariants") == ("deep.no-orphan", "fenced-writer")
    assert found.invariant("deep.no-orphan").__name__ == "NoOrphan"
    assert found.kinds("faults") == ()


def test_listing_imports_no_plugin(package: Path) -> None:
    (package / "heavy.py").write_text("raise AssertionError('imported')")
    assert registry(package).kinds("invariants") == ("heavy",)


def test_a_driver_may_be_a_package_with_modules_of_its_own(package: Path) -> None:
    (package / "slurm").mkdir()
    driver = PLUGIN.replace("Invariant", "Driver").format(name="Slurm")
    (package / "slurm" / "__init__.py").write_text(f"from {package.name}.slurm.batch import Slurm")
    (package / "slurm" / "batch.py").write_text(driver)
    found = Registry({"drivers": package.name}, entry_points=False)
    assert found.kinds("drivers") == ("slurm",)
    assert found.driver("slurm").__name__ == "Slurm"


def test_an_unknown_kind_is_answered_with_a_near_miss(package: Path) -> None:
    (package / "fenced_writer.py").write_text(PLUGIN.format(name="FencedWriter"))
    with pytest.raises(PluginError, match=r"unknown invariant `fenced-writers` \(did you mean `fenced-writer`\?\)"):
        registry(package).invariant("fenced-writers")
    with pytest.raises(PluginError, match="no probes are installed"):
        registry(package).probe("anything")


@pytest.mark.parametrize("names", [(), ("One", "Two")])
def test_a_file_without_exactly_one_plugin_is_refused(package: Path, names: tuple[str, ...]) -> None:
    (package / "odd.py").write_text("".join(PLUGIN.format(name=name) for name in names))
    with pytest.raises(PluginError, match=f"must define exactly one Invariant, not {len(names)}"):
        registry(package).invariant("odd")


def test_a_plugin_that_does_not_import_says_why(package: Path) -> None:
    (package / "broken.py").write_text("import nowhere_to_be_found")
    with pytest.raises(PluginError, match=r"`broken` does not load from .*: No module named 'nowhere_to_be_found'"):
        registry(package).invariant("broken")


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Installs a distribution that publishes one invariant."""
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "acme-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: acme\nVersion: 1.0\n")

    def write(name: str, value: str) -> None:
        (folder / "entry_points.txt").write_text(f"[chaos.invariants]\n{name} = {value}\n")

    return write


def test_an_entry_point_publishes_a_kind(package: Path, publish: Publish) -> None:
    (package / "outside.py").write_text(PLUGIN.format(name="Mine"))
    publish("acme.mine", f"{package.name}.outside:Mine")
    found = Registry({})
    assert found.kinds("invariants") == ("acme.mine",)
    assert found.invariant("acme.mine").__name__ == "Mine"


def test_an_entry_point_that_is_no_plugin_is_refused(publish: Publish) -> None:
    publish("acme.mine", "os:getcwd")
    with pytest.raises(PluginError, match="os:getcwd is no Invariant"):
        Registry({}).invariant("acme.mine")
    publish("acme.mine", "os:nothing")
    with pytest.raises(PluginError, match="os:nothing is no Invariant"):
        Registry({}).invariant("acme.mine")


def test_two_plugins_of_one_kind_are_an_error(package: Path, publish: Publish) -> None:
    (package / "mine.py").write_text(PLUGIN.format(name="Mine"))
    publish("mine", "elsewhere:Mine")
    with pytest.raises(PluginError, match=rf"two invariants of kind `mine`: {package.name}\.mine and elsewhere:Mine"):
        Registry({"invariants": package.name}).kinds("invariants")


def test_a_suggestion_is_near_or_names_what_there_is() -> None:
    assert did_you_mean("partition", ["network.partition", "process.kill"]) == "did you mean `network.partition`?"
    assert did_you_mean("xyz", ["b", "a"]) == "known: a, b"
    assert did_you_mean("xyz", []) == ""
    assert did_you_mean("xyz", [f"k{i:02}" for i in range(30)]).endswith("k19, …")


@pytest.mark.slow
def test_every_built_in_plugin_loads_and_none_imports_anything_heavy() -> None:
    script = """
import sys
from chaos.registry import GROUPS, Registry
registry = Registry(entry_points=False)
for group in GROUPS:
    assert registry.kinds(group), group
    for kind in registry.kinds(group):
        assert registry.find(group, kind).__doc__, kind
heavy = {"torch", "numpy", "pyroute2", "rich", "jinja2", "junit_xml"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
