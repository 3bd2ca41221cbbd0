"""Selectors against the members that live at the moment of injection."""

from __future__ import annotations

from chaos.api import Member, Selector, Slot
from chaos.selection import hurt, is_empty, select

SLOTS = tuple(
    slot
    for i in range(4)
    for slot in (
        Slot(name=f"agent-n{i}", role="agent", node=f"n{i}", domains={"rack": f"r{i // 2}"}),
        Slot(name=f"worker-n{i}", role="worker", node=f"n{i}", rank=i, domains={"rack": f"r{i // 2}"}),
    )
)
ALIVE = tuple(Member(name=s.name, role=s.role, pid=10 + i, node=s.node, rank=s.rank) for i, s in enumerate(SLOTS))
NODES = ("s0", "n0", "n1", "n2", "n3")


def of(selector: Selector, members: tuple[Member, ...] = ALIVE) -> tuple[list[str], list[str]]:
    (selection,) = select([selector], SLOTS, members, NODES)
    return [m.name for m in selection.members], list(selection.nodes)


def without(*names: str) -> tuple[Member, ...]:
    return tuple(m for m in ALIVE if m.name not in names)


def test_every_given_field_must_match() -> None:
    assert of(Selector(roles=("worker",), nodes=("n1", "n2"))) == (["worker-n1", "worker-n2"], ["n1", "n2"])
    assert of(Selector(nodes=("n1",))) == (["agent-n1", "worker-n1"], ["n1"])
    assert of(Selector(domains={"rack": "r1"}, roles=("agent",))) == (["agent-n2", "agent-n3"], ["n2", "n3"])
    assert of(Selector(domains={"rack": "r1"})) == (["agent-n2", "worker-n2", "agent-n3", "worker-n3"], ["n2", "n3"])
    assert of(Selector(names=("worker-n3",))) == (["worker-n3"], ["n3"])


def test_a_rank_follows_an_elastic_restart() -> None:
    moved = (*without("worker-n3", "worker-n2"), Member(name="worker-n3", role="worker", pid=99, node="n3", rank=2))
    assert of(Selector(ranks=(2,)), moved) == (["worker-n3"], ["n3"])


def test_a_node_stays_selected_when_its_members_have_gone() -> None:
    assert of(Selector(nodes=("n3",)), without("agent-n3", "worker-n3")) == ([], ["n3"])
    assert of(Selector(names=("worker-n3",)), without("worker-n3")) == ([], ["n3"])
    assert of(Selector(ranks=(3,)), without("worker-n3")) == ([], ["n3"])


def test_named_members_that_have_gone_are_an_empty_selection_and_empty_nodes_are_not() -> None:
    gone = without("agent-n3", "worker-n3")
    for selector, empty in (
        (Selector(names=("worker-n3",)), True),
        (Selector(ranks=(3,)), True),
        (Selector(nodes=("n3",)), False),
        (Selector(nodes=("n9",)), True),
    ):
        assert is_empty(selector, select([selector], SLOTS, gone, NODES)[0]) is empty


def test_the_rest_is_every_node_that_the_other_side_does_not_name() -> None:
    a, b = select([Selector(nodes=("n3",)), Selector(rest=True)], SLOTS, ALIVE, NODES)
    assert a.nodes == ("n3",)
    assert b.nodes == ("s0", "n0", "n1", "n2")
    assert "worker-n3" not in {m.name for m in b.members}
    b, a = select([Selector(rest=True), Selector(names=("worker-n0",))], SLOTS, ALIVE, NODES)
    assert (a.nodes, b.nodes) == (("n0",), ("s0", "n1", "n2", "n3"))


def test_what_is_hurt_counts_members_or_whole_nodes_of_the_smaller_side() -> None:
    def count(*selectors: Selector) -> int:
        return len(hurt(selectors, select(selectors, SLOTS, ALIVE, NODES)))

    assert count(Selector(nodes=("n3",)), Selector(rest=True)) == 1
    assert count(Selector(roles=("worker",))) == 4
    assert count(Selector(nodes=("n1", "n2"))) == 2
