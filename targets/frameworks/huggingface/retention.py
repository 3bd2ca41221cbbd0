"""Two runs of the Trainer into one folder, the second one shorter, with a limit on how many checkpoints are kept.

Generations are counted in the order in which they were written: the number in a folder's name is the step.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import transformers.trainer
from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import rotate_checkpoints

from chaos.inside import emit
from targets.frameworks.huggingface import tiny
from targets.frameworks.launcher import DATA, SETTINGS, Place, launch

CASE, LIBRARY = SETTINGS.get("case"), SETTINGS.get("library", "installed")
KEEP, DAY = 3, 24 * 3600.0


class Folders(TrainerCallback):
    """What the Trainer says it saved, and what is not there any more."""

    def __init__(self) -> None:
        self.generations: dict[Path, int] = {}

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        saved = Path(args.output_dir, f"checkpoint-{state.global_step}")
        generation = len(self.generations) + 1
        self.generations[saved] = generation
        step = state.global_step
        emit("checkpoint.committed", generation=generation, step=step, epoch=1, shards=[saved.name])
        for folder, of in self.generations.items():
            if of and not folder.exists():
                emit("checkpoint.removed", generation=of, name=folder.name)
                self.generations[folder] = 0


def by_number(**call: Any) -> None:
    """Before #37260 the order of checkpoints was that of their numbers."""
    rotate_checkpoints(**{**call, "use_mtime": False})


def work(place: Place) -> None:
    """The earlier run, and the one that is watched."""
    seed = int(SETTINGS.get("seed", 7))
    folders = Folders()
    emit("group.formed", epoch=1, world=1, generation=0, step=0)
    output = DATA / "output"
    earlier = Trainer(
        model=tiny.model(seed), train_dataset=tiny.Samples(40), data_collator=without_names, callbacks=[folders],
        args=tiny.arguments(output, max_steps=30, save_steps=10),
    )  # fmt: skip
    earlier.train()
    age(output)
    if LIBRARY == "guarded":
        output = DATA / "output-2"
    later = tiny.Told(
        place, model=tiny.model(seed), train_dataset=tiny.Samples(40), callbacks=[folders],
        args=tiny.arguments(output, max_steps=8, save_steps=2, save_total_limit=KEEP),
    )  # fmt: skip
    later.train()
    emit("job.completed", step=later.state.global_step)


def without_names(items: list[dict[str, Any]]) -> Any:
    """The earlier run is not watched step by step."""
    return transformers.default_data_collator([{k: v for k, v in item.items() if k != "sample"} for item in items])


def age(output: Path) -> None:
    """The earlier run was yesterday; or its folders were copied, with their times, from where it is an hour later."""
    shift = 3600.0 if CASE == "clock-ahead" else -DAY
    for folder in sorted(output.glob("checkpoint-*"), key=tiny.number):
        then = time.time() + shift + tiny.number(folder)
        os.utime(folder, (then, then))


if __name__ == "__main__":
    if LIBRARY == "as-it-was":
        library: Any = transformers.trainer
        library.rotate_checkpoints = by_number
    launch(work, restarts=0)
