"""Findings as SARIF 2.1.0, which code-scanning pages and editors show at the line."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import msgspec

from chaos import __version__
from chaos.inventory.findings import UNDECLARED, UNKEPT, UNKNOWN, UNLISTED, Finding, Rule, findings
from chaos.paths import Inventory, Spot

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"


def encode(inventories: Iterable[Inventory], others: Iterable[Finding] = ()) -> bytes:
    """One log with one run: the findings of all inventories, then `others`, whose rules are added.

    Files that an inventory shows as relative are relative to the root of the checkout: take it there. What has no place
    of its own is shown at the first target file, since pages drop what has none.
    """
    taken = tuple(inventories)
    found = [finding for inventory in taken for finding in findings(inventory)] + list(others)
    if taken:
        first = Spot(taken[0].file, 1)
        found = [msgspec.structs.replace(each, spot=each.spot or first) for each in found]
    rules = list(dict.fromkeys([UNDECLARED, UNLISTED, UNKEPT, UNKNOWN, *(finding.rule for finding in found)]))
    run = {
        "tool": {
            "driver": {
                "name": "chaos",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the checkout."}}},
        "invocations": [{"executionSuccessful": True}],
        "results": list(_results(found, rules)),
    }
    return msgspec.json.format(msgspec.json.encode({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}), indent=1)


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.help},
        "help": {"text": rule.help, "markdown": rule.help},
        "defaultConfiguration": {"level": rule.level},
        "properties": {"tags": ["reliability", "recovery"]},
    }


def _results(found: list[Finding], rules: list[Rule]) -> Iterator[dict[str, Any]]:
    alike: Counter[str] = Counter()
    for finding in found:
        fingerprint = _fingerprint(finding)
        alike[fingerprint] += 1
        yield _result(finding, rules.index(finding.rule), f"{fingerprint}:{alike[fingerprint]}")


def _result(finding: Finding, index: int, fingerprint: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule.id,
        "ruleIndex": index,
        "level": finding.rule.level,
        "message": {"text": finding.message},
        "partialFingerprints": {"chaosFinding/v1": fingerprint},
    }
    if finding.spot is not None:
        location: dict[str, Any] = {
            "physicalLocation": {
                "artifactLocation": _artifact(finding.spot.file),
                "region": {"startLine": finding.spot.line},
            }
        }
        if finding.inside:
            location["logicalLocations"] = [{"fullyQualifiedName": finding.inside, "kind": "function"}]
        result["locations"] = [location]
    return result


def _artifact(file: str) -> dict[str, str]:
    path = PurePath(file)
    if path.is_absolute():
        return {"uri": path.as_uri()}
    return {"uri": quote(path.as_posix()), "uriBaseId": _ROOT}


def _fingerprint(finding: Finding) -> str:
    """The same while lines move: a page that knows it goes on showing what people said about it."""
    file = finding.spot.file if finding.spot is not None else ""
    parts = (finding.rule.id, file, finding.inside, finding.message)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]
