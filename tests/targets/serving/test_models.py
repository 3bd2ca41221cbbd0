"""Golden answers, and that the models give them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from targets.serving.models import features, generator, ranking
from targets.serving.models.golden import golden_rank, golden_tokens, same_scores
from targets.serving.models.shapes import BLOCK, CONTEXT, SYSTEM
from targets.serving.models.weights import arrays
from targets.serving.settings import FEATURES, ITEMS, Settings

SETTINGS = Settings(tokens=6)
LIVE = dict.fromkeys(FEATURES, "live")
ITEM_IDS = [3, 77, 400, 12]


def nothing(layer: str, output: torch.Tensor) -> None:
    pass


def tensors(model: str, generation: int = 1) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array.copy()) for name, array in arrays(7, generation, model).items()}


def scores(tier: str, states: dict[str, str], generation: int = 1) -> list[float]:
    meant = features.meant(7, 5, states)
    with torch.inference_mode():
        answer = ranking.score(tier, tensors(tier, generation), torch.tensor(ITEM_IDS), meant, nothing)
    return [float(score) for score in answer]


@pytest.mark.parametrize("tier", ["primary", "secondary", "tertiary"])
@pytest.mark.parametrize("generation", [1, 2])
def test_a_model_scores_as_the_golden_one_does(tier: str, generation: int) -> None:
    golden = golden_rank(SETTINGS, generation, tier, 5, ITEM_IDS, LIVE)
    assert same_scores(scores(tier, LIVE, generation), golden)


@pytest.mark.parametrize(
    "states",
    [
        {"important": "default"},
        {"useful": "default"},
        {"optional": "omitted"},
        {"important": "default", "optional": "omitted"},
    ],
)
def test_what_features_were_used_changes_the_answer_and_the_golden_one_alike(states: dict[str, str]) -> None:
    golden = golden_rank(SETTINGS, 1, "primary", 5, ITEM_IDS, {**LIVE, **states})
    assert same_scores(scores("primary", {**LIVE, **states}), golden)
    assert not same_scores(golden, golden_rank(SETTINGS, 1, "primary", 5, ITEM_IDS, LIVE))


def test_a_lower_rung_ranks_like_a_higher_one_that_knows_less() -> None:
    every = list(range(ITEMS))
    by_tier = {t: golden_rank(SETTINGS, 1, t, 5, every, LIVE) for t in ("primary", "secondary", "tertiary", "static")}
    likeness = {tier: float(np.corrcoef(by_tier["primary"], by_tier[tier])[0, 1]) for tier in by_tier}
    assert likeness["primary"] > likeness["secondary"] > likeness["tertiary"] > likeness["static"] > 0.05


def test_another_generation_or_user_gives_another_answer_and_a_nan_is_wrong() -> None:
    golden = golden_rank(SETTINGS, 1, "primary", 5, ITEM_IDS, LIVE)
    assert not same_scores(golden, golden_rank(SETTINGS, 2, "primary", 5, ITEM_IDS, LIVE))
    assert not same_scores(golden, golden_rank(SETTINGS, 1, "primary", 6, ITEM_IDS, LIVE))
    assert not same_scores([float("nan"), *golden[1:]], golden)


def test_features_that_were_changed_or_belong_to_somebody_else_are_told() -> None:
    data = features.encode(features.table(7, "useful")[5], 5)
    assert np.array_equal(features.decode(data, 5), features.table(7, "useful")[5])
    with pytest.raises(features.Wrong):
        features.decode(data, 6)
    with pytest.raises(features.Wrong):
        features.decode(bytes([data[0] ^ 1]) + data[1:], 5)


def test_a_session_says_the_same_however_its_blocks_lie() -> None:
    prompts = [list(b"hello"), list(b"again")]
    first, second = golden_tokens(SETTINGS, 1, prompts[:1]), golden_tokens(SETTINGS, 1, prompts)
    weights, cache = tensors("generator"), generator.pool(16)
    blocks = torch.tensor([9, 2, 14, 0, 5])
    said: list[int] = []
    with torch.inference_mode():
        for position, token in enumerate((*SYSTEM, *prompts[0], *first, *prompts[1], *second[:-1])):
            logits = generator.step(weights, cache, blocks, position, token, nothing)
            if position >= len(SYSTEM) + len(prompts[0]) + len(first) + len(prompts[1]) - 1:
                said.append(int(logits.argmax()))
    assert said == second
    assert len(SYSTEM) % BLOCK == 0
    assert CONTEXT % BLOCK == 0


def test_a_prompt_that_differs_changes_every_later_turn() -> None:
    assert golden_tokens(SETTINGS, 1, [[1, 2], [9]]) != golden_tokens(SETTINGS, 1, [[1, 3], [9]])
    assert golden_tokens(SETTINGS, 1, [[1, 2], [9]]) != golden_tokens(SETTINGS, 2, [[1, 2], [9]])
