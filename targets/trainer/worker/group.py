"""The process group of one incarnation: gloo on CPUs, NCCL where every rank has a GPU of its own."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

SIOCGIFADDR = 0x8915


class Socket(NamedTuple):
    """A connection of this process; the inode tells it from a later one with the same descriptor."""

    descriptor: int
    inode: str


class Group(NamedTuple):
    """This rank's place in the group, and its two communicators."""

    rank: int
    world: int
    mesh: DeviceMesh
    background: dist.ProcessGroup  # of saves: one communicator shared with training would deadlock
    shards: int  # ranks that hold the state once, together: all of them, or those of a replica
    replica: dist.ProcessGroup  # those of this rank's replica
    across: dist.ProcessGroup | None  # the ranks with the same shard; None where there is one replica only
    sockets: frozenset[Socket] = frozenset()  # of all its communicators

    @property
    def shard(self) -> int:
        """Which part of the state this rank holds."""
        return self.rank % self.shards

    def sever(self) -> None:
        """Close the connections of this group under whoever waits in a collective: it raises at once.

        Nothing else reaches a thread inside gloo whose peer is frozen or cut off. Safe in any thread.
        """
        for known in self.sockets:
            with suppress(OSError), closing(socket.socket(fileno=os.dup(known.descriptor))) as own:
                if os.readlink(f"/proc/self/fd/{own.fileno()}") == known.inode:
                    own.shutdown(socket.SHUT_RDWR)

    def dissolve(self) -> None:
        """Leave for good; another group can be formed afterwards."""
        self.sever()
        dist.destroy_process_group()


def form(
    rank: int, world: int, master: tuple[str, int], *, address: str, timeout: float, shards: int | None = None
) -> Group:
    """Meet the other ranks at `master` (rank 0 listens there). `timeout` bounds every collective, seconds.

    With `shards` below `world` the group is made of replicas of so many ranks each.
    """
    os.environ["GLOO_SOCKET_IFNAME"] = interface_of(address)
    others = _sockets()
    cuda = torch.cuda.device_count() >= world
    if cuda:
        torch.cuda.set_device(rank)
    limit = timedelta(seconds=timeout)
    host, port = master
    if rank:
        _await_listener(master, timeout)
    dist.init_process_group(
        "nccl" if cuda else "gloo", init_method=f"tcp://{host}:{port}", rank=rank, world_size=world, timeout=limit
    )
    background = dist.new_group(backend="gloo", timeout=limit)
    assert isinstance(background, dist.ProcessGroup)
    shards = shards or world
    kind, replica, across = "cuda" if cuda else "cpu", background, None
    if shards == world:
        mesh = init_device_mesh(kind, (world,))
    else:
        mesh = init_device_mesh(kind, (world // shards, shards), mesh_dim_names=("replicate", "shard"))
        replica = _own([range(first, first + shards) for first in range(0, world, shards)], rank, limit)
        across = _own([range(shard, world, shards) for shard in range(shards)], rank, limit)
    return Group(rank, world, mesh, background, shards, replica, across, frozenset(_sockets() - others))


def _own(parts: list[range], rank: int, limit: timedelta) -> dist.ProcessGroup:
    """The communicator of the part that `rank` is in; every rank must call it with all parts."""
    formed = [dist.new_group(list(part), backend="gloo", timeout=limit) for part in parts]
    own = next(group for group, part in zip(formed, parts, strict=True) if rank in part)
    assert isinstance(own, dist.ProcessGroup)
    return own


def _sockets() -> set[Socket]:
    """Every connection over IP that this process has open; not where it listens, which gloo cannot do without."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            inode = os.readlink(f"/proc/self/fd/{name}")
            if inode.startswith("socket:"):
                with closing(socket.socket(fileno=os.dup(int(name)))) as own:
                    if own.family in (socket.AF_INET, socket.AF_INET6) and own.getpeername():
                        found.add(Socket(int(name), inode))
    return found


def _await_listener(master: tuple[str, int], timeout: float) -> None:
    """Until rank 0 listens. The rendezvous itself backs off by up to a second where rank 0 is milliseconds late."""
    end = time.monotonic() + timeout
    while True:
        try:
            return socket.create_connection(master, timeout).close()
        except OSError:  # not a recovery path: ranks start together, and who is first waits
            if time.monotonic() >= end:
                raise
            time.sleep(0.01)


def interface_of(address: str) -> str:
    """The network interface that carries `address`."""
    if address.startswith("127."):
        return "lo"  # which carries all of 127.0.0.0/8, whatever address it names
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # an interface without an address
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    raise OSError(f"no interface carries {address}")


def unsharded(group: Group, tensors: Iterable[Tensor]) -> Iterator[bytes]:
    """The bytes of each whole tensor, in one collective of the replica for all of them. Every rank of it must call it
    with its own shards.

    FSDP2 shards the first dimension in chunks, so the shards' bytes in the order of the ranks are the tensor's.
    """
    tensors = list(tensors)
    local = [as_bytes(t.to_local() if isinstance(t, DTensor) else t) for t in tensors]
    sizes = [[_shard_bytes(t, shard, group.shards) for t in tensors] for shard in range(group.shards)]
    longest = max(map(sum, sizes))
    mine = torch.zeros(longest, dtype=torch.uint8)
    if local:
        mine[: sum(sizes[group.shard])] = torch.cat(local)
    gathered = [torch.empty(longest, dtype=torch.uint8) for _ in range(group.shards)]
    dist.all_gather(gathered, mine, group=group.replica)
    parts = [torch.split(g[: sum(size)], size) for g, size in zip(gathered, sizes, strict=True)]
    for index, tensor in enumerate(tensors):
        ranks = parts if isinstance(tensor, DTensor) else parts[:1]
        yield b"".join(part[index].numpy().tobytes() for part in ranks)


def as_bytes(tensor: Tensor) -> Tensor:
    """The bytes of a tensor, on the CPU."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def _shard_bytes(tensor: Tensor, shard: int, shards: int) -> int:
    if not isinstance(tensor, DTensor):
        return tensor.numel() * tensor.element_size()
    rows = tensor.shape[0]
    chunk = -(-rows // shards)
    mine = max(min(chunk, rows - shard * chunk), 0)
    return mine * (tensor.numel() // rows) * tensor.element_size()
