"""Deliberate bugs, switched on one at a time by the setting `defect`; each proves that some invariant can fail.

Code asks `active(settings, MARKER_FIRST)` at the one place where it goes wrong.
"""

from __future__ import annotations

from typing import Final

from targets.trainer.settings import Settings

NO_FENCING: Final = "no-fencing"
MARKER_FIRST: Final = "marker-first"
RESTORE_NEWEST_DIRECTORY: Final = "restore-newest-directory"
MIXED_GENERATIONS: Final = "mixed-generations"
RETENTION_BY_COUNT: Final = "retention-by-count"
RESTORE_SECOND_NEWEST: Final = "restore-second-newest"
DIGEST_NOT_VERIFIED: Final = "digest-not-verified"
RNG_NOT_RESTORED: Final = "rng-not-restored"
CURSOR_NOT_RESTORED: Final = "cursor-not-restored"
CURSOR_IS_A_DELTA: Final = "cursor-is-a-delta"
SAMPLER_EPOCH_RESET: Final = "sampler-epoch-reset"
SKIP_EVERY_EPOCH: Final = "skip-every-epoch"
OPTIMIZER_EMPTY: Final = "optimizer-empty"
SCHEDULE_NOT_RESTORED: Final = "schedule-not-restored"
DOUBLE_COUNT_AFTER_RESIZE: Final = "double-count-after-resize"
EPOCH_NOT_RAISED: Final = "epoch-not-raised"
SHORT_TIMEOUT: Final = "short-timeout"
NO_DETECTION: Final = "no-detection"
FAILURE_KEPT_QUIET: Final = "failure-kept-quiet"
ORPHANS_SURVIVE: Final = "orphans-survive"
RESTART_LOOP: Final = "restart-loop"
LENGTH_ONLY: Final = "length-only"
MISSING_SHARD_FROM_OLDER: Final = "missing-shard-from-older"
MANIFEST_DAMAGE_STARTS_AFRESH: Final = "manifest-damage-starts-afresh"
ROLLBACK_ONCE: Final = "rollback-once"
LOOK_ALIKE_BELIEVED: Final = "look-alike-believed"
UNMARKED_IS_REMOVED: Final = "unmarked-is-removed"
TRUST_LATEST: Final = "trust-latest"
NO_FENCING_ON_COMMIT: Final = "no-fencing-on-commit"
NO_FENCING_ON_SHARDS: Final = "no-fencing-on-shards"
FENCE_AT_CONNECT: Final = "fence-at-connect"
LOST_RESPONSE_IS_FAILURE: Final = "lost-response-is-failure"
THROTTLED_RANK_SKIPS: Final = "throttled-rank-skips"
WARM_KEEPS_NEWER_STATE: Final = "warm-keeps-newer-state"
SPARE_STARTS_AFRESH: Final = "spare-starts-afresh"
NO_SHARD_FSYNC: Final = "no-shard-fsync"
NO_DIR_FSYNC: Final = "no-dir-fsync"
ACK_BEFORE_FSYNC: Final = "ack-before-fsync"
EACH_RANK_LOOKS: Final = "each-rank-looks"
RESTART_ON_TRANSIENT: Final = "restart-on-transient"
REJOIN_STALE_SCHEDULE: Final = "rejoin-stale-schedule"
NO_RETRY: Final = "no-retry"
RETRY_UNBOUNDED: Final = "retry-unbounded"
ANSWERS_UNHEEDED: Final = "answers-unheeded"
HALF_SHARD_ACCEPTED: Final = "half-shard-accepted"
UPLOAD_TRUSTED: Final = "upload-trusted"
NO_REPLAY: Final = "no-replay"
NAN_COMMITTED: Final = "nan-committed"
STATE_NOT_SCRUBBED: Final = "state-not-scrubbed"
BLAMES_WITHOUT_EVIDENCE: Final = "blames-without-evidence"
DEVICE_KEPT: Final = "device-kept"
OOM_RESTART_LOOP: Final = "oom-restart-loop"
STRAGGLER_RESTARTED: Final = "straggler-restarted"
EVICTS_AT_ANY_PRICE: Final = "evicts-at-any-price"
CANARY_SKIPPED: Final = "canary-skipped"
QUARANTINE_UNRECORDED: Final = "quarantine-unrecorded"
STORAGE_ERROR_IGNORED: Final = "storage-error-ignored"
RETRY_AFTER_EIO: Final = "retry-after-eio"
WRITTEN_IN_PLACE: Final = "written-in-place"
SHORT_READ_IS_ALL: Final = "short-read-is-all"
UNREADABLE_STARTS_AFRESH: Final = "unreadable-starts-afresh"
ABORT_REMOVES_OLDER: Final = "abort-removes-older"
JOINS_UNHEARD: Final = "joins-unheard"
LEASE_BY_WALL_CLOCK: Final = "lease-by-wall-clock"
NEVER_GIVES_UP: Final = "never-gives-up"

DEFECTS: Final = {
    NO_FENCING: "the store accepts any token",
    MARKER_FIRST: "the commit marker is written before the shards are acknowledged",
    RESTORE_NEWEST_DIRECTORY: "restores the newest directory, committed or not",
    MIXED_GENERATIONS: "one rank restores an older generation than the others",
    RETENTION_BY_COUNT: "retention counts directories, committed or not, and removes the last good one",
    RESTORE_SECOND_NEWEST: "restores an older committed generation without cause",
    DIGEST_NOT_VERIFIED: "nobody compares digests",
    RNG_NOT_RESTORED: "the random number generators stay fresh",
    CURSOR_NOT_RESTORED: "the data cursor stays at the start",
    CURSOR_IS_A_DELTA: "the saved cursor counts from the last resume on",
    SAMPLER_EPOCH_RESET: "a resumed sampler shuffles as in the first data epoch",
    SKIP_EVERY_EPOCH: "what was consumed before a resume is skipped in every later data epoch too",
    OPTIMIZER_EMPTY: "the optimizer comes back empty",
    SCHEDULE_NOT_RESTORED: "the learning-rate schedule starts over",
    DOUBLE_COUNT_AFTER_RESIZE: "after a change of world size each rank begins at its old offset",
    EPOCH_NOT_RAISED: "a re-formed group keeps the old epoch",
    SHORT_TIMEOUT: "the stall timeout is shorter than a checkpoint and does not know phases",
    NO_DETECTION: "nobody notices silence",
    FAILURE_KEPT_QUIET: "the group is formed again after a failure of which nobody tells",
    ORPHANS_SURVIVE: "a worker does not watch its agent",
    RESTART_LOOP: "a restarted worker dies again at its first step, without end",
    LENGTH_ONLY: "shards are compared by length, not by digest",
    MISSING_SHARD_FROM_OLDER: "a shard that is missing is taken from the generation before",
    MANIFEST_DAMAGE_STARTS_AFRESH: "a manifest that cannot be read means that there is no checkpoint",
    ROLLBACK_ONCE: "after two damaged generations the job starts over, whatever older ones there are",
    LOOK_ALIKE_BELIEVED: "nobody compares the number of a folder with what its manifest says",
    UNMARKED_IS_REMOVED: "a generation without its marker is garbage, decided or not",
    TRUST_LATEST: "restores what the file `latest` names",
    NO_FENCING_ON_COMMIT: "the store looks at every token but that of a commit",
    NO_FENCING_ON_SHARDS: "the store looks at every token but that of a shard",
    FENCE_AT_CONNECT: "the store looks at the token of a connection's first call only",
    LOST_RESPONSE_IS_FAILURE: "a put whose answer was lost counts as failed, although it is there",
    THROTTLED_RANK_SKIPS: "a rank whose upload is refused by the storage trains on without a word",
    WARM_KEEPS_NEWER_STATE: "survivors of a warm restart keep what they trained since the checkpoint",
    SPARE_STARTS_AFRESH: "a promoted spare begins at the start of the data",
    NO_SHARD_FSYNC: "the store does not sync the content of shards",
    NO_DIR_FSYNC: "the store does not sync folders, so that new names may be lost",
    ACK_BEFORE_FSYNC: "the store acknowledges a commit before its records are on disk",
    EACH_RANK_LOOKS: "each rank restores the newest generation that it sees in the shared folder",
    RESTART_ON_TRANSIENT: "whoever is suspected is taken for lost at once",
    REJOIN_STALE_SCHEDULE: "a replica that rejoins keeps the learning-rate schedule that it had",
    NO_RETRY: "the first try of a call of the store is the last",
    RETRY_UNBOUNDED: "calls of the store are retried without end",
    ANSWERS_UNHEEDED: "an agent does not mind that nobody answers its heartbeats",
    HALF_SHARD_ACCEPTED: "the store writes a shard as it comes, and a name that is there counts as stored",
    UPLOAD_TRUSTED: "a shard counts as stored once it was sent, and the store does not look",
    NO_REPLAY: "a step that looks wrong is not repeated",
    NAN_COMMITTED: "a step that is no number is taken, and saved",
    STATE_NOT_SCRUBBED: "nobody compares memory with what the last step left there",
    BLAMES_WITHOUT_EVIDENCE: "a device is excluded when it is named for the first time",
    DEVICE_KEPT: "a device stays, however often it is named",
    OOM_RESTART_LOOP: "memory that ran out is tried again as it was",
    STRAGGLER_RESTARTED: "a slow rank is taken for one that failed",
    EVICTS_AT_ANY_PRICE: "a slow rank is parted with, whatever that costs",
    CANARY_SKIPPED: "nobody looks at the canary of a restored state",
    QUARANTINE_UNRECORDED: "a batch is left out, and nobody is told",
    STORAGE_ERROR_IGNORED: "the store acknowledges a shard that it could not write, and does not look at it",
    RETRY_AFTER_EIO: "a failed sync of a shard is tried again, and what it says then is believed",
    WRITTEN_IN_PLACE: "a shard is written under its own name, and a name that is there counts as stored",
    SHORT_READ_IS_ALL: "what one read of a shard gives is taken for all of it",
    UNREADABLE_STARTS_AFRESH: "a shard that cannot be read means that there is no checkpoint",
    ABORT_REMOVES_OLDER: "what is removed with an aborted generation is also what was before it",
    JOINS_UNHEARD: "a node is taken into a group before it has shown that it hears the leader",
    LEASE_BY_WALL_CLOCK: "the leader counts silence and the leases of members by the time of day",
    NEVER_GIVES_UP: "a group that cannot be formed is formed again without end",
}


def active(settings: Settings, name: str) -> bool:
    """Whether the deliberate bug `name` is switched on."""
    if name not in DEFECTS:
        raise KeyError(name)
    return settings.defect == name
