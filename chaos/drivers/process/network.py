"""Nodes with addresses of their own on a private bridge, and cuts between them, all through netlink.

Loaded by `init.py` inside the lab; the harness never imports it.

    node n0                          node n1
    ┌────────────────────┐           ┌────────────────────┐     one network namespace a node; the rules of a node drop
    │ rules ── eth0      │           │      eth0 ── rules │     what *arrives* from a cut-off address: the sender
    └───────────┬────────┘           └────────┬───────────┘     notices nothing but silence, as with a broken cable
             veth0 ────────── bridge ────── veth1
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

CLONE_NEWNET = 0x40000000
BRIDGE = "chaos0"
TABLE = "chaos"
PREFIX = 24
WAIT, AGAIN = 3.0, 0.05  # seconds that a proof may take, and between its packets; one needs some ten microseconds
NF_DROP, NF_ACCEPT = 0, 1
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, SOCK_DESTROY = 4, 20, 21
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
CONNECTED = 0xFFF & ~(1 << 6 | 1 << 7 | 1 << 10)  # states of TCP without TIME_WAIT, CLOSE, LISTEN

libc = ctypes.CDLL(None, use_errno=True)
Pair = tuple[str, str]


class NoProof(RuntimeError):
    """A rule stands, or is gone, and packets do not behave so."""


class Network:
    """The nodes and what is cut between them. `namespaces` holds one open file of a network namespace a node."""

    def __init__(self, nodes: list[tuple[str, str]]) -> None:
        from pyroute2 import IPRoute

        self.address = dict(nodes)
        self.namespaces: dict[str, int] = {}
        self.rules: dict[str, Any] = {}  # a netlink socket in each node
        self.covered: dict[Pair, int] = {}  # how many cuts drop the packets of a pair
        self.probes: dict[Pair, int] = {}  # packets of ours that a rule may have dropped
        self.home = namespace()
        with IPRoute() as host:
            host.link("set", index=1, state="up")
            if nodes:
                host.link("add", ifname=BRIDGE, kind="bridge")
                self.bridge = host.link_lookup(ifname=BRIDGE)[0]
                host.link("set", index=self.bridge, state="up")
            for index, (node, address) in enumerate(nodes):
                self.namespaces[node] = self.add_node(host, index, address)
        for source, target in pairwise(self.address):  # a link comes up a moment after it was told to
            self.prove_passing(source, target)
        self.refused = self.add_tables()

    def add_node(self, host: Any, index: int, address: str) -> int:
        from pyroute2 import IPRoute

        syscall("unshare", CLONE_NEWNET)
        node = namespace()
        try:
            for name in ("all", "default"):  # a second way between the nodes would pass by the rules
                with suppress(FileNotFoundError), open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as file:
                    file.write("1")
            with IPRoute() as inner:
                host.link("add", ifname=f"veth{index}", kind="veth", peer={"ifname": "eth0", "net_ns_fd": node})
                port = host.link_lookup(ifname=f"veth{index}")[0]
                host.link("set", index=port, master=self.bridge, state="up")
                eth0 = inner.link_lookup(ifname="eth0")[0]
                inner.link("set", index=1, state="up")
                inner.addr("add", index=eth0, address=address, prefixlen=PREFIX)
                inner.link("set", index=eth0, state="up")
        finally:
            syscall("setns", self.home, CLONE_NEWNET)
        return node

    def add_tables(self) -> str:
        """An empty table of rules in every node, and a socket to change it; the reason when the kernel has none."""
        from pyroute2.netlink.exceptions import NetlinkError
        from pyroute2.nftables.main import NFTables

        # Before anything else sees the packet, whether it belongs to a known flow or not.
        chain = {"hook": "prerouting", "type": "filter", "priority": -300, "policy": NF_ACCEPT}
        try:
            for node in self.address:
                with self.inside(node):
                    rules = self.rules[node] = NFTables()
                rules.table("add", name=TABLE)
                rules.chain("add", table=TABLE, name=TABLE, **chain)
        except (NetlinkError, OSError) as error:
            return f"nftables is missing: {error}"
        return ""

    def mechanisms(self) -> dict[str, str]:
        """What cuts packets here; nothing where there are no nodes."""
        if not self.address:
            return {}
        return {"links-refused": self.refused} if self.refused else {"links": "nftables"}

    @contextmanager
    def inside(self, node: str) -> Iterator[None]:
        """Sockets opened here belong to the node."""
        syscall("setns", self.namespaces[node], CLONE_NEWNET)
        try:
            yield
        finally:
            syscall("setns", self.home, CLONE_NEWNET)

    def socket_on(self, node: str, kind: int, family: int) -> int:
        """A socket that belongs to the node, whoever gets it."""
        with self.inside(node):
            return socket.socket(family, kind).detach()

    def apply(self, op: str, request: dict[str, Any]) -> dict[str, Any]:
        """`cut` or `restore`; raises OSError or RuntimeError, whatever goes wrong."""
        from pyroute2.netlink.exceptions import NetlinkError

        pairs = [(source, target) for source, target in request["pairs"]]
        try:
            return {"cut": self.cut, "restore": self.restore}[op](pairs)
        except NetlinkError as error:
            raise RuntimeError(f"the kernel refuses a rule: {error}") from error

    def cut(self, pairs: list[Pair]) -> dict[str, Any]:
        """Drop what goes from each first to each second node, and prove it; on failure nothing of it is left."""
        stands: list[Pair] = []
        try:
            for pair in pairs:
                if pair not in self.covered:
                    self.drop(*pair)
                self.covered[pair] = self.covered.get(pair, 0) + 1
                stands.append(pair)
            return {"mechanism": "nftables", "pairs": [self.prove_dropped(*pair) for pair in pairs]}
        except BaseException:
            self.release(stands)
            raise

    def restore(self, pairs: list[Pair]) -> dict[str, Any]:
        """Undo one cut and prove that packets arrive again, except where another cut still drops them."""
        if unknown := [pair for pair in pairs if pair not in self.covered]:
            raise NoProof(f"nothing cuts {unknown}")
        met = sum(self.met(*pair) for pair in pairs)
        self.release(pairs)
        proofs = [self.prove_dropped(*p) if self.covered.get(p) else self.prove_passing(*p) for p in pairs]
        return {"mechanism": "nftables", "pairs": proofs, "met": met}

    def met(self, source: str, target: str) -> int:
        """Packets of others than ourselves that the pair's rule has dropped."""
        with suppress(Exception):  # nothing stands before a heal
            return max(self.counted(source, target)[0] - self.probes.get((source, target), 0), 0)
        return 0

    def release(self, pairs: list[Pair]) -> None:
        for source, target in pairs:
            left = self.covered.pop((source, target)) - 1
            if left:
                self.covered[source, target] = left
            else:
                handle = self.counted(source, target)[1]
                self.rules[target].rule("del", table=TABLE, chain=TABLE, handle=handle)

    def drop(self, source: str, target: str) -> None:
        """A rule in the target's node for what comes from the source's address."""
        from pyroute2.nftables.expressions import genex, ipv4addr, verdict

        if unknown := {source, target} - self.address.keys():
            raise NoProof(f"no such node: {', '.join(unknown)}")
        count = genex("counter", {"bytes": 0, "packets": 0})
        rule = ipv4addr(src=self.address[source]), [count], verdict(NF_DROP)
        self.probes.pop((source, target), None)
        self.rules[target].rule("add", table=TABLE, chain=TABLE, expressions=rule)

    def prove_dropped(self, source: str, target: str) -> dict[str, Any]:
        """Send a packet: it must be counted by the rule and must not arrive."""
        before, handle = self.counted(source, target)
        sent, dropped, began, due = 0, 0, time.monotonic(), 0.0
        with self.probe(source, target) as (sender, receiver, token):
            while not dropped:  # a counter has no event to wait for
                if (now := time.monotonic()) > began + WAIT:
                    raise NoProof(f"none of {sent} packets from {source} to {target} was dropped by rule {handle}")
                if now >= due:
                    sender.send(token)
                    sent, due = sent + 1, now + AGAIN
                    self.probes[source, target] = self.probes.get((source, target), 0) + 1
                dropped = self.counted(source, target)[0] - before
            if arrived(receiver, token, 0.0):
                raise NoProof(f"a packet from {source} to {target} arrived in spite of rule {handle}")
        return {"from": source, "to": target, "sent": sent, "dropped": dropped, "rule": handle}

    def prove_passing(self, source: str, target: str) -> dict[str, Any]:
        """Send a packet: it must arrive."""
        with self.probe(source, target) as (sender, receiver, token):
            for sent in range(1, int(WAIT / AGAIN) + 1):
                sender.send(token)
                if arrived(receiver, token, AGAIN):
                    return {"from": source, "to": target, "sent": sent, "received": 1}
        raise NoProof(f"none of {sent} packets from {source} to {target} arrives although nothing cuts it")

    def counted(self, source: str, target: str) -> tuple[int, int]:
        """Packets that the pair's rule has dropped, and the rule's handle."""
        address = socket.inet_aton(self.address[source])
        for rule in self.rules[target].get_rules():
            if rule.get_attr("NFTA_RULE_CHAIN") != TABLE:
                continue
            parts = {
                e.get_attr("NFTA_EXPR_NAME"): e.get_attr("NFTA_EXPR_DATA")
                for e in rule.get_attr("NFTA_RULE_EXPRESSIONS")
            }
            if parts["cmp"].get_attr("NFTA_CMP_DATA").get_attr("NFTA_DATA_VALUE") == address:
                return parts["counter"].get_attr("NFTA_COUNTER_PACKETS"), rule.get_attr("NFTA_RULE_HANDLE")
        raise NoProof(f"the rule for packets from {source} to {target} is not there")

    @contextmanager
    def probe(self, source: str, target: str) -> Iterator[tuple[socket.socket, socket.socket, bytes]]:
        """A datagram socket on either node, and a token that nobody else sends."""
        with self.inside(target):
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with self.inside(source):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with receiver, sender:
            receiver.bind((self.address[target], 0))
            sender.bind((self.address[source], 0))
            sender.connect(receiver.getsockname())
            yield sender, receiver, secrets.token_bytes(16)


def build(nodes: list[tuple[str, str]]) -> Network:
    """The network of these nodes with their addresses; RuntimeError says what the kernel lacks."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        return Network(nodes)
    except NetlinkError as error:
        raise RuntimeError(f"the kernel refuses a bridge or a veth pair: {error}") from error


def bury(news: socket.socket) -> None:
    """In a process that outlives the lab by a moment: end what the dead leave on the wire. A connection whose last
    words nobody acknowledges, since the other end was cut off or has gone, would keep its node's network for minutes.
    """
    fds = socket.recv_fds(news, 1, 253)[1]
    if fds:  # else the lab never stood
        lab, *nodes = fds
        ended = select.poll()
        ended.register(lab, select.POLLIN)
        ended.poll()  # process 1 has ended once all others have
        for node in nodes:
            with suppress(OSError):
                end_connections(node)
    os._exit(0)


def end_connections(node: int) -> None:
    """Enter a node for good, and abort every connection there."""
    syscall("setns", node, CLONE_NEWNET)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as diag:

        def ask(family: int, kind: int, flags: int, connection: bytes) -> None:
            body = struct.pack("=BBxxI", family, socket.IPPROTO_TCP, CONNECTED) + connection
            diag.send(struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | flags, 1, 0) + body)

        for family in (socket.AF_INET, socket.AF_INET6):  # the latter also speak over IPv4
            ask(family, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, bytes(48))
            for connection in tuple(connections(diag)):
                ask(family, SOCK_DESTROY, NLM_F_ACK, connection)
                diag.recv(4096)


def connections(diag: socket.socket) -> Iterator[bytes]:
    """What the kernel lists, each by its addresses, ports and cookie."""
    while True:
        answer, place = diag.recv(1 << 16), 0
        while place < len(answer):
            length, kind = struct.unpack_from("=IH", answer, place)
            if kind != SOCK_DIAG_BY_FAMILY:  # the end of the list, or an error
                return
            yield answer[place + 20 : place + 68]
            place += (length + 3) & ~3


def arrived(receiver: socket.socket, token: bytes, within: float) -> bool:
    receiver.settimeout(within)
    try:
        return receiver.recv(64) == token
    except (TimeoutError, BlockingIOError):
        return False


def namespace() -> int:
    """The network namespace that this process is in, as an open file that keeps it alive."""
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def syscall(name: str, *arguments: int) -> None:
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {errno.errorcode.get(number, number)}")
