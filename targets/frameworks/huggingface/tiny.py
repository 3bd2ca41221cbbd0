"""A language model of a few thousand weights, data made on the spot, and a Trainer that says what it does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from chaos.inside import emit, point
from targets.frameworks.launcher import Place

LENGTH = 8


def model(seed: int) -> GPT2LMHeadModel:
    """With random weights, the same ones for the same seed."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=64, n_positions=LENGTH, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return GPT2LMHeadModel(config)


class Samples(Dataset[dict[str, Any]]):
    """Each sample says which one it is."""

    def __init__(self, size: int) -> None:
        self.rows = torch.randint(0, 64, (size, LENGTH), generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.rows[index], "labels": self.rows[index], "sample": index}


def arguments(folder: Path, **more: Any) -> TrainingArguments:
    """What all jobs have in common: a CPU, no reports to anybody, and all columns of the data."""
    return TrainingArguments(
        output_dir=str(folder), use_cpu=True, report_to=[], disable_tqdm=True, remove_unused_columns=False,
        save_strategy="steps", logging_strategy="no", **more,
    )  # fmt: skip


class Told(Trainer):
    """The Trainer as it is. Which samples a step consumed, and its loss, are reported when the step has ended."""

    def __init__(self, place: Place, **more: Any) -> None:
        super().__init__(**more)
        self.place = place
        self.samples: list[int] = []
        self.loss: float | None = None
        self.add_callback(Steps(self))

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        self.samples = inputs.pop("sample").tolist()
        point("step.begin", step=self.state.global_step + 1, rank=self.place.rank, epoch=self.place.epoch)
        loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
        self.loss = float(loss)
        return loss


class Steps(TrainerCallback):
    """One event a step, and one when the training begins."""

    def __init__(self, trainer: Told) -> None:
        self.trainer = trainer

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        place, trainer = self.trainer.place, self.trainer
        emit(
            "step.completed", step=state.global_step, rank=place.rank, world=place.world, epoch=place.epoch,
            loss=repr(trainer.loss) if place.world == 1 else None,  # else each rank has its own
            samples=trainer.samples, data_epoch=int(state.epoch - 1e-9),
        )  # fmt: skip


def number(folder: Path | str) -> int:
    """The step in the name of a checkpoint."""
    found = re.search(r"checkpoint-(\d+)$", str(folder))
    assert found is not None, folder
    return int(found[1])
