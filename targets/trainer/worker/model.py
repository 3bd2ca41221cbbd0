"""A small byte-level transformer, sharded by FSDP2."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard

BYTES = 256
CONTEXT = 64
WIDTH, HEADS, LAYERS, DROPOUT = 64, 4, 2, 0.1


class Block(nn.Module):
    """Attention and a feed-forward part, each behind a normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention, self.norm_feed = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = self.qkv(self.norm_attention(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH)))
        feed: Tensor = self.dropout(self.down(F.gelu(self.up(self.norm_feed(x)))))
        return x + feed


class Transformer(nn.Module):
    """Bytes to the logits of the next byte."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.positions = nn.Embedding(BYTES, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, BYTES, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bytes(x) + self.positions.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


class Sharded(Transformer, FSDPModule):
    """What `build` returns, for type checkers: `fully_shard` mixes FSDPModule in."""


def build(mesh: DeviceMesh, seed: int) -> Sharded:
    """A fresh model, the same on every rank for one seed, sharded over `mesh`."""
    torch.manual_seed(seed)
    model = Transformer().to(mesh.device_type)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return cast(Sharded, model)


def loss_sum(model: nn.Module, windows: Tensor) -> Tensor:
    """The loss of each window (mean over its bytes), summed over the windows."""
    logits = model(windows[:, :-1])
    losses = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten(), reduction="none")
    total: Tensor = losses.view(len(windows), -1).mean(dim=1).sum()
    return total
