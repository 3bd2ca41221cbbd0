"""The ranking models: one score for each item that was asked for.

primary: attention of each item over the user's features, then a small network. secondary and tertiary: what is left
of it when less may be computed. The static rung is a list of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from targets.serving.models.shapes import DEEP, WIDTH
from targets.serving.models.weights import Array
from targets.serving.settings import FEATURES

Weights = Mapping[str, Tensor]
Features = Mapping[str, Array | None]
Offer = Callable[[str, Tensor], None]  # the layer and its output: for faults that change it


def score(tier: str, weights: Weights, items: Tensor, features: Features, offer: Offer) -> Tensor:
    """Scores of `items` for a user; `features` has an entry for each tier that this rung uses."""
    chosen = weights["items"][items]
    user = _of(features["critical"]) @ weights["critical"]
    if tier != "tertiary":
        user = user + _of(features["important"]) @ weights["important"]
    offer("user", user)
    scores = weights["bias"][items] + chosen @ user
    if tier == "primary":
        scores = scores + DEEP * _deep(weights, chosen, features, offer)
    return scores


def _of(features: Array | None) -> Tensor:
    assert features is not None
    return torch.from_numpy(np.array(features))


def _deep(weights: Weights, chosen: Tensor, features: Features, offer: Offer) -> Tensor:
    known = torch.from_numpy(np.stack([f for tier in FEATURES if (f := features[tier]) is not None]))
    keys, values = known @ weights["key"], known @ weights["value"]
    attention = torch.softmax((chosen @ weights["query"]) @ keys.T / WIDTH**0.5, dim=-1)
    context = attention @ values
    offer("attention", context)
    hidden = torch.relu(torch.cat((chosen, context, chosen * context), dim=-1) @ weights["up"])
    hidden = torch.relu(hidden @ weights["middle"])
    offer("middle", hidden)
    return hidden @ weights["down"]
