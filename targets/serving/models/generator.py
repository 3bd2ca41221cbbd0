"""The generator: a small transformer over bytes that computes one token at a time, its KV cache in blocks.

A token is always computed by the same operations on the same shapes, whether it is the next one, part of a prompt, or
recomputed after a failover. So its bits do not depend on the way by which its session came here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from targets.serving.models.shapes import BLOCK, HEADS, HIDDEN, LAYERS

Weights = Mapping[str, Tensor]
Offer = Callable[[str, Tensor], None]

_SIDE = HIDDEN // HEADS


def pool(blocks: int) -> Tensor:
    """Room for that many blocks: [block, layer, key or value, token, hidden]."""
    return torch.zeros(blocks, LAYERS, 2, BLOCK, HIDDEN)


def step(weights: Weights, cache: Tensor, blocks: Tensor, position: int, token: int, offer: Offer) -> Tensor:
    """Write the keys and values of `token` at `position` to the session's `blocks`; logits of what comes next."""
    block, at = int(blocks[position // BLOCK]), position % BLOCK
    state = weights["embedding"][token] + weights["positions"][position]
    for layer in range(LAYERS):
        query, key, value = torch.split(layer_norm(state, (HIDDEN,)) @ weights[f"qkv.{layer}"], HIDDEN)
        cache[block, layer, 0, at], cache[block, layer, 1, at] = key, value
        known = cache[blocks[: position // BLOCK + 1], layer]  # a copy: what is done to the pool later does not matter
        keys = known[:, 0].reshape(-1, HEADS, _SIDE)[: position + 1]
        values = known[:, 1].reshape(-1, HEADS, _SIDE)[: position + 1]
        weight = torch.softmax((keys * query.view(HEADS, _SIDE)).sum(-1) / _SIDE**0.5, dim=0)
        attended = (weight.unsqueeze(-1) * values).sum(0).reshape(HIDDEN)
        state = state + attended @ weights[f"out.{layer}"]
        hidden = torch.relu(layer_norm(state, (HIDDEN,)) @ weights[f"up.{layer}"])
        state = state + hidden @ weights[f"down.{layer}"]
        offer(f"layer.{layer}", state)
    return layer_norm(state, (HIDDEN,)) @ weights["head"]
