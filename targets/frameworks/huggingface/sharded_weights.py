"""A model in several files is published, and loaded by `from_pretrained` to be served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers.modeling_utils
from transformers import AutoModelForCausalLM

from chaos.inside import emit, point
from targets.frameworks.huggingface import tiny
from targets.frameworks.launcher import DATA, SETTINGS, Place, digest, file_facts, launch

FOLDER = DATA / "models" / "v1"
LIBRARY = SETTINGS.get("library", "installed")


def publish(seed: int) -> None:
    """Write it, in files of at most 8 kB and an index that names them."""
    made = tiny.model(seed)
    emit("checkpoint.begun", generation=1, step=0, epoch=1, world=1)
    state = {"model": digest(made.state_dict())}
    emit("checkpoint.saved", generation=1, step=0, rank=0, epoch=1, state=state)
    made.save_pretrained(FOLDER, max_shard_size="8KB")
    shards = sorted(FOLDER.glob("*.safetensors"))
    for file in shards:
        emit("checkpoint.shard_written", generation=1, name=file.name, rank=0, **file_facts(file))
    emit("checkpoint.committed", generation=1, step=0, epoch=1, shards=[file.name for file in shards])


def load(seed: int) -> None:
    """As a server does when it starts; the digest is that of the weights it would serve."""
    transformers.set_seed(seed + 1)
    emit("checkpoint.loading", generation=1, rank=0, epoch=1)
    try:
        model = AutoModelForCausalLM.from_pretrained(FOLDER)
    except Exception as error:
        emit("checkpoint.damaged", generation=1, name=FOLDER.name, reason=f"{type(error).__name__}: {error}")
        raise
    state = {"model": digest(model.state_dict())}
    emit("checkpoint.loaded", generation=1, step=0, rank=0, world=1, epoch=1, state=state)


def leaves_out_what_is_missing() -> None:
    """What vLLM and SGLang did: files that the index names and nobody has are not loaded."""
    library: Any = transformers.modeling_utils
    files = library.get_checkpoint_shard_files

    def there(*args: Any, **more: Any) -> Any:
        names, metadata = files(*args, **more)
        return [name for name in names if Path(name).exists()], metadata

    library.get_checkpoint_shard_files = there


def work(place: Place) -> None:
    """Publish, then serve."""
    seed = int(SETTINGS.get("seed", 7))
    publish(seed)
    emit("group.formed", epoch=place.epoch, world=1, generation=0, step=0)
    point("model.before_load", generation=1)
    load(seed)
    emit("job.completed", step=0)


if __name__ == "__main__":
    if LIBRARY == "as-it-was":
        leaves_out_what_is_missing()
    launch(work, restarts=0)
