"""What the process driver makes of a target file."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.api import Slot
from chaos.drivers.process import Process
from chaos.drivers.process.spec import decode
from chaos.errors import SpecError

SPEC: dict[str, Any] = {
    "name": "trainer",
    "settings": {"nodes": 3, "defect": "none", "verify": True},
    "env": {"THREADS": 1, "STORE": "${address.s0}"},
    "nodes": [{"name": "s0"}, {"name": "n${i}", "for-each": "nodes"}],
    "domains": {"rack": {"of": "n*", "size": 2}},
    "members": [
        {"name": "store", "role": "store", "node": "s0", "command": ["python", "store.py", "${data}", 7, "${nodes}"]},
        {"name": "leader", "role": "coordinator", "node": "n${last}", "command": ["leader", "--v=${verify}"]},
        {"name": "agent-n${i}", "role": "agent", "node": "n${i}", "for-each": "nodes", "command": ["agent"]},
    ],
    "announced": [{"name": "worker-n${i}", "role": "worker", "node": "n${i}", "rank": "${i}", "for-each": "nodes"}],
}


def changed(**more: Any) -> dict[str, Any]:
    return {**SPEC, **more}


def test_slots_are_all_members_started_or_announced_with_their_domains() -> None:
    slots = {slot.name: slot for slot in Process().slots(SPEC)}
    assert list(slots) == ["store", "leader", *(f"agent-n{i}" for i in range(3)), *(f"worker-n{i}" for i in range(3))]
    assert slots["leader"].node == "n2"
    assert slots["store"].domains == {}
    assert slots["worker-n1"] == Slot(name="worker-n1", role="worker", node="n1", rank=1, domains={"rack": "r0"})
    assert slots["worker-n2"].domains == {"rack": "r1"}


def test_command_lines_are_filled_in_and_made_of_words() -> None:
    store, leader, *agents = decode(SPEC).programs({"data": "/run/data", "address.s0": "10.77.0.1"})
    assert store.command == ("python", "store.py", "/run/data", "7", "3")
    assert leader.command == ("leader", "--v=true")
    assert {agent.group for agent in agents} == {2}


def test_the_environment_is_filled_in_and_made_of_words() -> None:
    assert decode(SPEC).environment({"address.s0": "10.77.0.1"}) == {"THREADS": "1", "STORE": "10.77.0.1"}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"members": [{"name": "a", "role": "b", "comand": []}]}, "members: .*comand"),
        ({"members": [{"name": "a", "role": "b", "command": ["${nodse}"]}]}, r"\$\{nodse\} is not defined .*nodes"),
        ({"nodes": [{"name": "n${i}", "for-each": "defect"}]}, "for-each names no setting with a whole number"),
        ({"nodes": [{"name": "n${i}", "for-each": "verify"}]}, "for-each names no setting with a whole number"),
        ({"announced": [{"name": "w", "role": "worker", "node": "n9"}]}, "w is on node n9, which is not among"),
        ({"announced": [{"name": "store", "role": "worker"}]}, "two members have the name store"),
        ({"announced": [{"name": "w", "role": "worker", "rank": "one"}]}, "announced: .*int"),
    ],
)
def test_what_is_wrong_is_told(more: dict[str, Any], reason: str) -> None:
    def read() -> None:
        spec = decode(changed(**more))
        spec.slots()
        spec.programs({"data": "", "address.s0": ""})

    with pytest.raises(SpecError, match=reason):
        read()


@pytest.mark.parametrize("more", [{"stop-grace": "soon"}, {"ready": {"event": "e", "within": "20"}}])
def test_a_duration_without_its_unit_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"target: .*(soon|20)"):
        decode(changed(**more))


def test_a_device_is_a_failure_domain_of_the_ranks_that_use_it() -> None:
    spec = {
        "settings": {"nodes": 2},
        "nodes": [{"name": "n${i}", "for-each": "nodes"}],
        "devices": [
            {"name": "gpu0", "node": "n0", "ranks": [0], "index": 3},
            {"name": "gpu1", "node": "n0", "ranks": [1]},
            {"name": "gpu-n1", "node": "n1"},
        ],
        "members": [{"name": "agent", "role": "agent", "node": "n0", "command": ["true"]}],
        "announced": [
            {"name": f"w{rank}", "role": "worker", "node": node, "rank": rank}
            for rank, node in enumerate(("n0", "n0", "n1"))
        ],
    }
    assert {slot.name: slot.domains.get("device") for slot in decode(spec).slots()} == {
        "agent": None, "w0": "gpu0", "w1": "gpu1", "w2": "gpu-n1",
    }  # fmt: skip
    assert [device.index for device in decode(spec).bound()] == [3, None, None]


@pytest.mark.parametrize(
    ("devices", "wrong"),
    [
        ([{"name": "gpu0", "node": "n7"}], "gpu0 is on node n7, which is not among the nodes"),
        ([{"name": "a", "node": "n0"}, {"name": "b", "node": "n0"}], "rank 0 \\(w\\) is bound to a and b"),
        ([{"name": "a", "node": "n0", "rank": 0}], "devices: "),
    ],
)
def test_a_wrong_binding_is_told(devices: Any, wrong: str) -> None:
    spec = {
        "nodes": [{"name": "n0"}],
        "devices": devices,
        "announced": [{"name": "w", "role": "worker", "node": "n0", "rank": 0}],
    }
    with pytest.raises(SpecError, match=wrong):
        decode(spec).slots()
