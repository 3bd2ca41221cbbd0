"""What a training history means: groups, lineage, generations, faults and who is who."""

from __future__ import annotations

from judge.histories import Tape, killed_and_restarted

from chaos.history import Event, History
from chaos.training import Generations, Roster, few, generations_before, lineage, listed, strikes


def test_a_restore_discards_what_was_done_after_its_step() -> None:
    line = lineage(killed_and_restarted().history)
    assert [e.step for e in line.lasting] == list(range(1, 61))
    assert [e.group.index for e in line.lasting] == [0] * 20 + [1] * 40


def test_a_lineage_is_worked_out_once() -> None:
    history = killed_and_restarted().history
    assert lineage(history) is lineage(history)


def test_groups_that_share_an_epoch_are_told_apart_by_order() -> None:
    tape = Tape().start().train(1, 5)
    tape.form(1, 4, 1, 2)
    tape.train(3, 4)
    line = lineage(tape.history)
    assert [sorted(run) for run in line.runs] == [[1, 2, 3, 4, 5], [3, 4]]


def test_steps_without_a_formation_are_a_group_of_their_own() -> None:
    tape = Tape().train(1, 3, world=2)
    (group,) = lineage(tape.history).groups
    assert (group.epoch, group.world, group.step) == (1, 2, 0)


def test_the_frontier_is_the_last_step_of_any_rank_in_the_group_of_that_moment() -> None:
    tape = Tape().start().train(1, 5)
    tape.step(6, ranks=[2])
    line_end = tape.events[-1]
    assert lineage(tape.history).frontier(line_end)[0] == 6
    tape.form(2, 4, 1, 3)
    fresh = tape.events[tape.add("x")]
    assert lineage(tape.history).frontier(fresh) == (3, None)
    assert lineage(History()).frontier(line_end) == (0, None)


def test_progress_is_a_step_that_the_whole_group_completed() -> None:
    tape = Tape().start().train(1, 5)
    mark = tape.count
    tape.step(6, ranks=[0, 1, 2])
    assert lineage(tape.history).progress(5, mark) is None
    tape.step(6, ranks=[3])
    found = lineage(tape.history).progress(5, mark)
    assert found is not None
    assert (found.step, found.last.seq) == (6, tape.count)


def test_progress_takes_the_group_that_got_there_first() -> None:
    history = killed_and_restarted().history
    found = lineage(history).progress(30, -1)
    assert found is not None
    assert (found.step, found.group.index) == (31, 1)


def test_generations_are_good_from_their_commit_until_they_are_removed_or_damaged() -> None:
    tape = Tape().start()
    seqs = [tape.save(1, 20), tape.save(2, 40)]
    seqs.append(tape.add("checkpoint.damaged", "store", generation=2, name="x", reason="digest"))
    seqs.append(tape.add("checkpoint.committed", "store", generation=2, step=40))
    seqs.append(tape.add("checkpoint.removed", "store", generation=1))
    after = [sorted(good) for _, good in generations_before(tape.history, [s + 1 for s in seqs])]
    assert after == [[1], [1, 2], [1], [1], []]


def test_a_generation_may_be_committed_after_an_abort() -> None:
    state = Generations()
    for seq, kind in enumerate(("committed", "aborted", "committed")):
        state.take(Event(seq, 0.0, 0.0, "store", f"checkpoint.{kind}", {"generation": 1}))
    assert state.newest == 1


def test_each_landing_is_paired_with_its_own_heal() -> None:
    tape = Tape()
    for _ in range(2):
        tape.fault("freeze", "w", instant=False)
        tape.wait(1).heal("freeze")
    tape.fault("freeze", "w", instant=False)
    one, two, three = strikes(tape.history)
    assert one.healed is not None
    assert two.healed is not None
    assert one.healed.seq < two.injecting.seq < two.landed.seq < two.healed.seq
    assert three.healed is None
    assert three.stands(99.0) == 99.0
    assert one.stands(99.0) == one.healed.t


def test_a_fault_on_a_node_hits_everyone_who_lives_there() -> None:
    tape = Tape().start()
    tape.fault("isolate", nodes=("n2",), instant=False)
    (fault,) = strikes(tape.history)
    roster = Roster(tape.history)
    assert roster.hit(fault) == {"n2", "agent-n2", "worker-n2"}
    assert roster.ranks(roster.hit(fault))
    assert not roster.ranks(frozenset({"coordinator-1"}))


def test_evidence_and_lists_are_cut_for_a_reader() -> None:
    assert few([3, 1, 1, 2]) == (1, 2, 3)
    assert few(range(100), 4) == (0, 1, 2, 99)
    assert listed([1, 2, 3], 2) == "1, 2 and 1 more"
