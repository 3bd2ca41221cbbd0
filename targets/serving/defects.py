"""Deliberate bugs, switched on one at a time by the setting `defect`; each proves that some invariant can fail.

Code asks `active(settings, STREAM_RESTARTS)` at the one place where it goes wrong. The comment names the invariant that
catches it.
"""

from __future__ import annotations

from typing import Final

from targets.serving.settings import Settings

# Replicas
READY_BEFORE_LOADED: Final = "ready-before-loaded"  # health-truth
HEALTH_IS_A_CONSTANT: Final = "health-is-a-constant"  # health-truth
DIGEST_NOT_CHECKED: Final = "digest-not-checked"  # served-generation
CORRECT_NOT_RUN: Final = "correct-not-run"  # no-wrong-answer
NUMBERS_NOT_CHECKED: Final = "numbers-not-checked"  # no-wrong-answer
CACHE_WITHOUT_SINGLE_FLIGHT: Final = "cache-without-single-flight"  # shed-not-amplify
KV_NOT_FREED: Final = "kv-not-freed"  # reclaim
DRAIN_DROPS: Final = "drain-drops"  # clean-drain
RESTORE_UNCOMMITTED: Final = "restore-uncommitted"  # served-generation
GENERATION_GOES_BACK: Final = "generation-goes-back"  # served-generation
STALE_KV_ACCEPTED: Final = "stale-kv-accepted"  # fenced-session
STALE_KV_HIDDEN: Final = "stale-kv-hidden"  # fenced-session
COPY_NOT_USED: Final = "copy-not-used"  # unbroken-stream
TOKENS_REPEATED_AFTER_RESUME: Final = "tokens-repeated-after-resume"  # unbroken-stream
UNSAVED_STREAM_ENDS: Final = "unsaved-stream-ends"  # unbroken-stream
FEATURES_NOT_CHECKED: Final = "features-not-checked"  # no-wrong-answer
FEATURES_NEVER_DEGRADE: Final = "features-never-degrade"  # shed-not-amplify, serving.availability

# The router
IGNORES_HEALTH: Final = "ignores-health"  # no-dead-routing
NEVER_RETURNS: Final = "never-returns"  # accurate-ejection
EJECTS_ALL: Final = "ejects-all"  # accurate-ejection
CLIENT_ERRORS_COUNT: Final = "client-errors-count"  # accurate-ejection
RETRIES_UNBOUNDED: Final = "retries-unbounded"  # shed-not-amplify
RETRY_STORM: Final = "retry-storm"  # shed-not-amplify
NO_SHEDDING: Final = "no-shedding"  # shed-not-amplify, request-terminates
SHEDS_HIGH_FIRST: Final = "sheds-high-first"  # shed-not-amplify
NO_HYSTERESIS: Final = "no-hysteresis"  # steady-degradation
DEADLINE_NOT_INHERITED: Final = "deadline-not-inherited"  # request-terminates
STREAM_RESTARTS: Final = "stream-restarts"  # unbroken-stream
DRAIN_ACCEPTS: Final = "drain-accepts"  # clean-drain

DEFECTS: Final = {
    READY_BEFORE_LOADED: "a replica says that it is ready while it still loads",
    HEALTH_IS_A_CONSTANT: "a replica's health is 200, whatever its engine does",
    DIGEST_NOT_CHECKED: "a replica serves whatever bytes it has read",
    CORRECT_NOT_RUN: "nobody compares answers with known ones, or weights in memory with what was loaded",
    NUMBERS_NOT_CHECKED: "a score that is no number is an answer like any other",
    CACHE_WITHOUT_SINGLE_FLIGHT: "everybody who misses features that are being fetched fetches them as well",
    KV_NOT_FREED: "a stream whose client has gone keeps its blocks for good",
    DRAIN_DROPS: "a replica that drains does not wait for what is in flight",
    RESTORE_UNCOMMITTED: "a replica serves the newest folder, committed or not",
    GENERATION_GOES_BACK: "a replica that starts serves the oldest committed generation",
    STALE_KV_ACCEPTED: "who writes a session last is believed, whoever owns it",
    STALE_KV_HIDDEN: "the same, and who keeps the session says that it knows of nobody newer",
    COPY_NOT_USED: "a session that comes back from where it was kept is computed anew all the same, and nobody says so",
    TOKENS_REPEATED_AFTER_RESUME: "a session that goes on elsewhere says its last token again",
    UNSAVED_STREAM_ENDS: "a session that cannot be saved says nothing more",
    FEATURES_NOT_CHECKED: "what the store gives for features is taken as it is",
    FEATURES_NEVER_DEGRADE: "every feature is waited for as long as the critical ones",
    IGNORES_HEALTH: "the router sends requests to any replica, whatever it knows of it",
    NEVER_RETURNS: "a replica that was ejected never comes back",
    EJECTS_ALL: "replicas are ejected for failed attempts, however few are left",
    CLIENT_ERRORS_COUNT: "a client's own mistakes count as failures of the replica that found them",
    RETRIES_UNBOUNDED: "a failed attempt is repeated while the deadline lasts, without a budget",
    RETRY_STORM: "each layer of the router repeats what fails, so that the attempts multiply",
    NO_SHEDDING: "the router's queue has no end, and nobody is refused early",
    SHEDS_HIGH_FIRST: "a full queue lets its highest priority go",
    NO_HYSTERESIS: "the ladder goes up as soon as it is below the threshold at which it went down",
    DEADLINE_NOT_INHERITED: "each attempt starts a deadline of its own",
    STREAM_RESTARTS: "a stream that goes on elsewhere starts over",
    DRAIN_ACCEPTS: "a router that drains takes new requests, and cuts them when it ends",
}


def active(settings: Settings, name: str) -> bool:
    """Whether the deliberate bug `name` is switched on."""
    if name not in DEFECTS:
        raise KeyError(name)
    return settings.defect == name
