"""Cases in which a chaos tool must not turn green, and for each the tests that show what `chaos` does instead.

A test is named as pytest names it, below `tests/`; brackets hold one of its cases.
"""

from __future__ import annotations

_VERDICT = "verdicts/test_verdict.py::"
_SIGNALS = "verdicts/test_signals.py::"
_TIME = "verdicts/test_time.py::"
_FILE = "verdicts/test_files.py::test_every_wrong_file_is_refused_with_all_its_mistakes_at_their_places"
_CASES = "::test_a_mistake_is_told_once_at_its_place"
_TEXT, _METHOD = f"load/test_broken_text.py{_CASES}", f"load/test_broken_method.py{_CASES}"
_PROMISES = f"load/test_broken_promises.py{_CASES}"
_BEFORE = f"{_VERDICT}test_a_steady_state_that_is_not_met_before_injects_nothing"
_LANDED = f"{_VERDICT}test_a_fault_that_did_not_land_is_inconclusive"
_NOTHING = f"{_VERDICT}test_a_key_or_a_bound_that_would_do_nothing_is_refused_at_its_place"

VERDICT = {
    "a hypothesis is false before the method": [f"{_BEFORE}[false]"],
    "a hypothesis probe raises before": [f"{_BEFORE}[raises]"],
    "the injector raises": [f"{_LANDED}[refuses]", f"{_LANDED}[crashes]"],
    "the injector's process exits 2": [f"{_LANDED}[process-exits-2]"],
    "the fault runs but changes nothing": [
        f"{_LANDED}[proves-nothing]",
        f"{_VERDICT}test_a_fault_on_somebody_who_has_gone_is_inconclusive",
        f"{_VERDICT}test_a_selection_that_is_empty_from_the_start_is_refused_before_the_run",
        "drivers/test_links.py::test_a_cut_of_a_node_that_does_not_exist_lands_nowhere_and_leaves_nothing",
    ],
    "a continuous probe deviates for 1.5 s and recovers": [
        f"{_VERDICT}test_a_deviation_that_passes_fails_unless_only_before_and_after_are_asked_for",
    ],
    "a rollback raises": [
        f"{_VERDICT}test_a_heal_that_fails_has_an_exit_code_of_its_own_and_says_what_to_undo",
    ],
    "a mistyped key": [
        f"{_NOTHING}[steady_state_hypothesis]",
        f"{_NOTHING}[rollback]",
        f"{_NOTHING}[pause]",
        f"{_TEXT}[a near miss of a key]",
    ],
    "a dry run": [f"{_VERDICT}test_a_plan_is_no_run_and_leaves_nothing_that_could_be_taken_for_one"],
    "a tolerance that is not applied": [
        f"{_NOTHING}[tolerance]",
        f"{_NOTHING}[no bound]",
        f"{_PROMISES}[a tolerance that is not applied]",
    ],
    "tolerance 1 and the value true": [
        f"{_BEFORE}[true is not 1]",
        "judge/test_judge.py::test_types_are_compared_as_types",
    ],
    "a probe without data, with NaN, or late": [
        f"{_VERDICT}test_what_is_no_measurement_is_never_met",
        "runner/test_sampling.py::test_a_probe_that_is_not_back_within_its_period_is_late_and_has_no_value",
    ],
    "a score of 100 % over zero checks": [f"{_VERDICT}test_a_run_that_asks_nothing_is_inconclusive"],
    "two runs into the same folder": [
        f"{_VERDICT}test_two_runs_into_one_folder_have_a_folder_each",
        f"{_VERDICT}test_a_target_without_a_lab_serves_one_run_at_a_time",
    ],
}

SIGNALS = {
    "TERM or INT in a pause": [
        f"{_SIGNALS}test_a_signal_in_a_hold_heals_closes_the_journal_and_reports[TERM]",
        f"{_SIGNALS}test_a_signal_in_a_hold_heals_closes_the_journal_and_reports[INT]",
    ],
    "TERM at any other moment": [
        f"{_SIGNALS}test_a_signal_at_any_other_moment_ends_the_run_as_well",
        f"{_SIGNALS}test_an_interrupt_from_the_terminal_is_for_the_harness_alone",
    ],
    "TERM inside an injection": [
        f"{_SIGNALS}test_a_signal_inside_an_injection_cuts_it_short_and_injects_nothing_more",
    ],
    "a second TERM during a heal": [
        f"{_SIGNALS}test_a_second_signal_does_not_stop_a_heal_and_a_third_prints_what_is_left",
        "report/test_console.py::test_quiet_or_not_who_asks_a_third_time_is_told_what_is_left",
    ],
    "HUP, QUIT": [
        f"{_SIGNALS}test_a_signal_in_a_hold_heals_closes_the_journal_and_reports[HUP]",
        f"{_SIGNALS}test_a_signal_in_a_hold_heals_closes_the_journal_and_reports[QUIT]",
        f"{_SIGNALS}test_a_hang_up_is_no_reason_to_end_under_nohup",
    ],
    "KILL, out of memory": [
        f"{_SIGNALS}test_a_killed_harness_leaves_nothing_and_a_journal_that_reads_to_its_last_event",
        "drivers/test_leaks.py::test_a_harness_killed_at_any_moment_leaves_nothing",
    ],
    "the disk is full while journalling": [
        f"{_SIGNALS}test_a_full_disk_while_journalling_heals_first_and_makes_the_run_inconclusive",
        "runner/test_trouble.py::test_a_full_disk_heals_first_and_ends_the_run",
    ],
}

TIME = {
    "20 actions": [
        f"{_TIME}test_actions_that_take_most_of_their_period_do_not_drift",
        "runner/test_triggers.py::test_a_repeated_step_keeps_its_period",
    ],
    "a probe every 0.5 s that takes 0.2 s": [
        "runner/test_sampling.py::test_a_probe_that_takes_long_keeps_its_period",
    ],
    "an abort while a 10 s action runs": [
        f"{_TIME}test_a_signal_while_a_long_action_runs_takes_effect_at_once",
        f"{_TIME}test_an_abort_while_a_long_action_stands_heals_at_once",
        "runner/test_ending.py::test_an_abort_cuts_an_injection_short",
    ],
    "a trigger on an event of the target": [
        f"{_TIME}test_an_event_of_the_target_fires_its_fault_and_no_earlier_or_later_one_does",
        f"{_TIME}test_a_fault_at_a_failpoint_is_effective_before_the_target_goes_on",
    ],
}

FILES = {
    "empty": [f"{_FILE}[empty]", f"{_TEXT}[empty]"],
    "not YAML": [f"{_FILE}[not-yaml]", f"{_TEXT}[not YAML]"],
    "a list at the top": [f"{_FILE}[a-list]", f"{_TEXT}[a list at the top]"],
    "method a mapping": [f"{_FILE}[method-a-mapping]", f"{_METHOD}[method a mapping]"],
    "method a string": [f"{_FILE}[method-a-string]", f"{_METHOD}[method a string]"],
    "method null": [f"{_FILE}[method-null]", f"{_METHOD}[method null]"],
    "a step without fault": [f"{_FILE}[a-step-without-fault]", f"{_METHOD}[a step without fault]"],
    "a fault that does not exist": [f"{_FILE}[no-such-fault]", f"{_METHOD}[a fault that does not exist]"],
    "an unknown argument": [f"{_FILE}[unknown-argument]", f"{_METHOD}[an unknown setting]"],
    "a wrong type": [f"{_FILE}[wrong-type]", f"{_METHOD}[a word as duration]"],
    "a wrong unit": [f"{_FILE}[wrong-unit]", f"{_METHOD}[an unknown unit]"],
    "a negative duration": [f"{_FILE}[negative]", f"{_METHOD}[a negative duration]"],
    "a NaN duration": [f"{_FILE}[nan]", f"{_METHOD}[a duration that is no number]"],
    "a duplicate key": [f"{_FILE}[duplicate-key]", f"{_TEXT}[a duplicate key]"],
    "an undefined variable": [f"{_FILE}[undefined-variable]", f"{_TEXT}[an undefined variable]"],
    "an event that is not declared": [
        f"{_FILE}[undeclared-event]",
        f"{_METHOD}[an event the target does not declare]",
    ],
    "two triggers in one step": [f"{_FILE}[two-triggers]", f"{_METHOD}[two triggers]"],
    "a cycle of after": [f"{_FILE}[a-cycle]", f"{_METHOD}[a cycle of after]"],
    "a target file that is missing": [
        f"{_FILE}[target-missing]",
        "load/test_broken.py::test_a_target_that_is_missing_is_told_where_it_is_named",
    ],
    "a target file that is not readable": [
        "verdicts/test_files.py::test_a_target_file_that_is_wrong_or_not_to_be_read_is_told_at_its_place",
        "load/test_broken.py::test_a_target_that_may_not_be_read_is_told",
    ],
    "a target file that is a directory": [
        f"{_FILE}[target-a-directory]",
        "load/test_broken.py::test_a_target_that_is_a_folder_is_told",
    ],
    "a selector that can match nothing": [f"{_FILE}[selects-nothing]", f"{_METHOD}[a rank that is not there]"],
    "a budget with a unit missing": [f"{_FILE}[budget-without-unit]", f"{_PROMISES}[a budget with a unit missing]"],
    "an invariant that the target cannot feed": [
        f"{_FILE}[invariant-without-evidence]",
        f"{_PROMISES}[an invariant the target cannot feed]",
    ],
    "a boolean where a word is meant": [f"{_FILE}[yes-is-no-word]", f"{_TEXT}[a boolean where a word is meant]"],
    "tabs": [f"{_FILE}[tabs]", "load/test_broken.py::test_every_tab_is_told"],
    "10 MB": [f"{_FILE}[large]", "load/test_broken.py::test_a_file_of_ten_megabytes_is_refused_unread"],
    "an alias bomb": [f"{_FILE}[alias-bomb]", "load/test_broken.py::test_an_alias_bomb_is_refused"],
    "not UTF-8": [f"{_FILE}[not-utf-8]", "load/test_broken.py::test_bytes_that_are_not_utf_8_are_placed"],
    "all mistakes at once": [f"{_FILE}[several]", "verdicts/test_files.py::test_a_wrong_file_is_not_run"],
}

ROWS = [(row, tests) for table in (VERDICT, SIGNALS, TIME, FILES) for row, tests in table.items()]
