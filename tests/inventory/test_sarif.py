"""Findings as SARIF: what the standard requires is there, and code-scanning pages can place it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from chaos.inventory.findings import Finding, Rule, findings
from chaos.inventory.sarif import encode
from chaos.paths import Handler, Inventory, Path, Spot

INVENTORY = Inventory(
    target="sample",
    file="target.yaml",
    sources="00",
    paths=(
        Path(name="a.b", listed=Spot("target.yaml", 4), declared=(Spot("src/main.py", 9),)),
        Path(name="a.c", declared=(Spot("src/with space.py", 3),)),
        Path(name="a.d", listed=Spot("target.yaml", 5)),
    ),
    undeclared=(
        Handler(
            spot=Spot("src/main.py", 12), concern="store", catches=("OSError",), calls="store.get",
            does="tries again", inside="Vault.load",
        ),
    ),
    problems=("src/broken.py:7: cannot be read: invalid syntax",),
)  # fmt: skip


def run_of(content: bytes) -> dict[str, Any]:
    log = json.loads(content)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def test_a_log_has_what_the_standard_requires() -> None:
    run = run_of(encode([INVENTORY]))
    driver = run["tool"]["driver"]
    assert driver["name"] == "chaos"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids)) == 4
    for rule in driver["rules"]:
        assert all(rule[key]["text"] for key in ("shortDescription", "fullDescription", "help"))
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"]
    assert run["originalUriBaseIds"].keys() == {"%SRCROOT%"}


def test_each_finding_has_its_rule_and_its_line() -> None:
    rows = []
    for result in run_of(encode([INVENTORY]))["results"]:
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["artifactLocation"]["uriBaseId"] == "%SRCROOT%"
        rows.append((result["ruleId"], place["artifactLocation"]["uri"], place["region"]["startLine"]))
    assert rows == [
        ("unreadable-recovery-path", "src/broken.py", 7),
        ("unlisted-recovery-path", "src/with%20space.py", 3),
        ("unkept-recovery-path", "target.yaml", 5),
        ("undeclared-recovery-path", "src/main.py", 12),
    ]


def test_a_file_outside_of_the_checkout_has_its_whole_address() -> None:
    inventory = msgspec.structs.replace(INVENTORY, problems=("/elsewhere/x.py:1: cannot be read",))
    place = run_of(encode([inventory]))["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "file:///elsewhere/x.py"}


def test_a_finding_keeps_its_fingerprint_when_lines_move() -> None:
    def fingerprints(line: int, count: int = 1) -> list[str]:
        handlers = [msgspec.structs.replace(INVENTORY.undeclared[0], spot=Spot("a.py", line + i)) for i in range(count)]
        inventory = Inventory(target="x", file="x", sources="0", undeclared=tuple(handlers))
        results = run_of(encode([inventory]))["results"]
        return [result["partialFingerprints"]["chaosFinding/v1"] for result in results]

    assert fingerprints(12) == fingerprints(90)
    first, second = fingerprints(12, count=2)
    assert first != second


def test_findings_of_others_are_added_with_their_rules() -> None:
    rule = Rule(id="blocked", title="Blocked", help="Run it.", level="error")
    others = [
        Finding(rule=rule, message="`a.b` is untested", spot=Spot("src/main.py", 9)),
        Finding(rule=rule, message="x"),
    ]
    run = run_of(encode([], others))
    assert [result["ruleId"] for result in run["results"]] == ["blocked", "blocked"]
    assert run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]["id"] == "blocked"
    assert "locations" not in run["results"][1]


def test_what_has_no_place_is_shown_at_the_target_file() -> None:
    rule = Rule(id="blocked", title="Blocked", help="Run it.", level="error")
    result = run_of(encode([INVENTORY], [Finding(rule=rule, message="x")]))["results"][-1]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("target.yaml", 1)


def test_nothing_to_mend_is_a_log_without_results() -> None:
    inventory = msgspec.structs.replace(INVENTORY, paths=INVENTORY.paths[:1], undeclared=(), problems=())
    assert run_of(encode([inventory]))["results"] == []


@pytest.mark.parametrize(
    ("problem", "spot", "message"),
    [
        ("a.py:3: why", Spot("a.py", 3), "why"),
        ("/x y/a.py:3:7: why: so", Spot("/x y/a.py", 3), "why: so"),
        ("nobody knows where", None, "nobody knows where"),
    ],
)
def test_a_problem_is_split_into_its_place_and_its_reason(problem: str, spot: Spot | None, message: str) -> None:
    (finding,) = findings(Inventory(target="x", file="x", sources="0", problems=(problem,)))
    assert (finding.spot, finding.message) == (spot, message)
