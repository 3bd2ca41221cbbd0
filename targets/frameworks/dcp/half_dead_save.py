"""pytorch/torchtitan#315: a rank dies in a save, and its folder without `.metadata` is taken for the newest checkpoint.

As it was: the highest number among the folders. Since then: the highest among those with a `.metadata`.
"""

from __future__ import annotations

from targets.frameworks.dcp.job import Job, folders
from targets.frameworks.dcp.resume import complete, restore, train

VARIANT = "as-it-was"


def run(job: Job) -> None:
    if steps := sorted(folders(job.settings)) if job.settings.as_it_was else complete(job):
        restore(job, steps[-1])
    train(job)
