"""What befalls packets on their way between nodes, short of a cut: loss, a rate, a delay; and streams sent elsewhere.

Loaded by `init.py` inside the lab; the harness never imports it. It only sets rules: the harness measures what they do.

    node a: eth0 ── htb: a class for each cut-down way (rate), below it netem (delay) ── bridge
    node b: rules at its eth0 ── loss: a share of what comes from a ── nat: what comes for a port goes to another one
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

TABLE, LOSS, STREAMS = "chaos", "loss", "streams"
NF_ACCEPT, NF_DROP = 1, 0
BEFORE_NAT, AT_NAT = -290, -100
L4PROTO, TRANSPORT, LESS = 16, 2, 2  # nft_meta_keys, nft_payload_bases, nft_cmp_ops
PARTS = 1 << 24  # a share is counted in these
FASTEST = 4_000_000_000  # bytes per second: what a class without a bound may do
ETH_IP = 0x0800
PACKET, QUEUE, SEGMENTS = 1514, 10_000, 65_535
LIBERAL = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal"

Pair = tuple[str, str]
Expressions = list[dict[str, Any]]


class Way:
    """What one way between two nodes is made into by a class of its sender's queue."""

    def __init__(self, rate: int = 0, delay: float = 0.0, jitter: float = 0.0) -> None:
        self.rate, self.delay, self.jitter = rate, delay, jitter
        self.handle = 0  # of its class
        self.packets = 0  # that it had taken through queues which are no more


class Packets:
    """Rules beside those of `network.Network`, and taken away again one by one."""

    def __init__(self, network: Any) -> None:
        self.network = network
        self.ways: dict[Pair, Way] = {}
        self.lossy: set[Pair] = set()
        self.chains: set[tuple[str, str]] = set()
        self.queues: dict[str, Any] = {}  # of each node, a netlink socket in it

    def apply(self, op: str, request: dict[str, Any]) -> dict[str, Any]:
        """One of the methods below; raises OSError or RuntimeError, whatever goes wrong."""
        from pyroute2.netlink.exceptions import NetlinkError

        known: dict[str, Callable[..., dict[str, Any]]] = {
            "try": self.attempt, "lose": self.lose, "slow": self.slow, "delay": self.delay, "calm": self.calm,
            "count": self.count,
            "redirect": self.redirect, "unredirect": self.unredirect, "redirected": self.redirected,
        }  # fmt: skip
        fields = {key: value for key, value in request.items() if key not in ("id", "op")}
        if "pairs" in fields:
            fields["pairs"] = [(source, target) for source, target in fields["pairs"]]
        try:
            return known[op](**fields)
        except NetlinkError as error:
            raise RuntimeError(f"the kernel refuses it: {error}") from error

    def attempt(self, what: str) -> dict[str, Any]:
        """Whether the kernel can do it, really tried where it hurts nobody; raises what it says."""
        if not self.network.address or self.network.refused:
            raise RuntimeError(self.network.refused or "there are no nodes")
        node = next(iter(self.network.address))
        if what == "loss":
            self.lose([(node, node)], 0.0)
        elif what == "streams":
            self.redirect(node, [self.network.address[node]], [1], 1)
            self.unredirect(node, [self.network.address[node]], [1])
        else:
            self.shape([(node, node)], **({"rate": 1000} if what == "rate" else {"delay": 0.001}))
        if what != "streams":
            self.calm([(node, node)])
        return {}

    # --- loss

    def lose(self, pairs: list[Pair], share: float) -> dict[str, Any]:
        """Drop that share of the packets from each first to each second node, at random."""
        self._free(pairs, self.lossy)
        try:
            for source, target in pairs:
                self._chain(target, LOSS, "filter", BEFORE_NAT)
                rule = (*self._from(source), *_random_below(share), _counter(), *_verdict(NF_DROP))
                self.network.rules[target].rule("add", table=TABLE, chain=LOSS, expressions=(list(rule),))
                self.lossy.add((source, target))
        except BaseException:
            self.calm(pairs)
            raise
        return {"mechanism": "nftables"}

    # --- rate and delay

    def slow(self, pairs: list[Pair], rate: int) -> dict[str, Any]:
        """Let at most `rate` bytes per second pass from each first to each second node."""
        return self.shape(pairs, rate=rate)

    def delay(self, pairs: list[Pair], delay: float, jitter: float) -> dict[str, Any]:
        """Have packets from each first to each second node arrive that much later."""
        return self.shape(pairs, delay=delay, jitter=jitter)

    def shape(self, pairs: list[Pair], **what: Any) -> dict[str, Any]:
        self._free(pairs, self.ways)
        try:
            for pair in pairs:
                self.ways[pair] = Way(**what)
            self._queue({source for source, _ in pairs})
        except BaseException:
            self.calm(pairs)
            raise
        return {"mechanism": "netem" if "delay" in what else "htb"}

    def _queue(self, nodes: set[str]) -> None:
        """Make the queues of these nodes anew. Packets that wait in the old ones are lost, as TCP is used to."""
        from pyroute2.netlink.exceptions import NetlinkError

        for node in nodes:
            ip, eth0 = self._device(node)
            self._keep_count(node)
            with suppress(NetlinkError):  # there was none
                ip.tc("del", "htb", eth0, "1:")
            ways = self._ways(node)
            # Else 64 KiB pass at a time, and a rate is one on average only.
            ip.link("set", index=eth0, gso_max_segs=1 if ways else SEGMENTS)
            if not ways:
                continue
            ip.tc("add", "htb", eth0, "1:", default=0)  # what no class claims passes freely
            for number, (target, way) in enumerate(ways, 0x10):
                way.handle = 1 << 16 | number
                name, rate = f"1:{number:x}", way.rate or FASTEST
                burst = dict.fromkeys(("burst", "cburst"), max(2 * PACKET, rate // 1000))
                ip.tc("add-class", "htb", eth0, name, parent="1:0", rate=rate, ceil=rate, quantum=PACKET, **burst)
                if way.delay or way.jitter:
                    micro = {"delay": int(way.delay * 1e6), "jitter": int(way.jitter * 1e6)}
                    ip.tc("add", "netem", eth0, f"{number:x}:", parent=name, limit=QUEUE, **micro)
                address = int.from_bytes(socket.inet_aton(self.network.address[target]))
                ip.tc(
                    "add-filter", "u32", eth0, parent="1:0", prio=number, protocol=ETH_IP, target=name,
                    keys=[f"0x{address:08x}/0xffffffff+16"],
                )  # fmt: skip

    def _ways(self, node: str) -> list[tuple[str, Way]]:
        return [(target, way) for (source, target), way in self.ways.items() if source == node]

    def _passed(self, node: str) -> dict[int, int]:
        """Packets that each class of a node's queue has taken."""
        ip, eth0 = self._device(node)
        return {c["handle"]: c.get_attr("TCA_STATS")["packets"] for c in ip.get_classes(index=eth0)}

    def _keep_count(self, node: str) -> None:
        with suppress(Exception):  # nothing stands before a heal
            passed = self._passed(node)
            for _, way in self._ways(node):
                way.packets, way.handle = way.packets + passed.get(way.handle, 0), 0

    def count(self, pairs: list[Pair]) -> dict[str, Any]:
        """How many packets met what was done to these ways so far: that were dropped, or went through the queue."""
        packets = 0
        for source, target in pairs:
            if (source, target) in self.lossy:
                packets += self._rule(target, LOSS, self.network.address[source])[0]
            if way := self.ways.get((source, target)):
                packets += way.packets + self._passed(source).get(way.handle, 0)
        return {"packets": packets}

    def _device(self, node: str) -> tuple[Any, int]:
        from pyroute2 import IPRoute

        if node not in self.queues:
            with self.network.inside(node):
                self.queues[node] = IPRoute()
        return self.queues[node], self.queues[node].link_lookup(ifname="eth0")[0]

    def calm(self, pairs: list[Pair]) -> dict[str, Any]:
        """Take away whatever was done to these ways, except cuts. Says how many packets had met it, and how many the
        loss had dropped."""
        met, dropped = dict[str, Any](), 0
        with suppress(Exception):  # nothing stands before a heal
            met = self.count(pairs)
        for source, target in pairs:
            if (source, target) in self.lossy:
                count, handle = self._rule(target, LOSS, self.network.address[source])
                dropped += count
                self.network.rules[target].rule("del", table=TABLE, chain=LOSS, handle=handle)
                self.lossy.discard((source, target))
        shaped = {pair for pair in pairs if self.ways.pop(pair, None)}
        self._queue({source for source, _ in shaped})
        return {"dropped": dropped, **met}

    def _free(self, pairs: list[Pair], taken: Any) -> None:
        if unknown := {node for pair in pairs for node in pair} - self.network.address.keys():
            raise RuntimeError(f"no such node: {', '.join(sorted(unknown))}")
        if twice := [pair for pair in pairs if pair in taken]:
            raise RuntimeError(f"another fault of this kind stands between {twice[0][0]} and {twice[0][1]}")

    # --- streams

    def redirect(self, node: str, sources: list[str], ports: list[int], to: int) -> dict[str, Any]:
        """New connections that reach the node from these addresses at one of these ports go to its port `to`."""
        self._chain(node, STREAMS, "nat", AT_NAT)
        # A connection that was cut off for long is not taken for a broken one afterwards.
        with suppress(OSError), self.network.inside(node), open(LIBERAL, "w") as file:
            file.write("1")
        for source in sources:
            for port in ports:
                rule = [*_address(source), *_tcp(port), _counter(), *_redirect(to)]
                self.network.rules[node].rule("add", table=TABLE, chain=STREAMS, expressions=(rule,))
        return {"mechanism": "nftables"}

    def unredirect(self, node: str, sources: list[str], ports: list[int]) -> dict[str, Any]:
        """Undo that for new connections; those that stand keep their way."""
        for source in sources:
            for port in ports:
                _, handle = self._rule(node, STREAMS, source, port)
                self.network.rules[node].rule("del", table=TABLE, chain=STREAMS, handle=handle)
        return {}

    def redirected(self, node: str, sources: list[str], ports: list[int]) -> dict[str, Any]:
        """How many connections took that way so far."""
        return {"connections": sum(self._rule(node, STREAMS, s, p)[0] for s in sources for p in ports)}

    # --- rules

    def _chain(self, node: str, name: str, kind: str, priority: int) -> None:
        """A chain is there from its first use on."""
        if (node, name) not in self.chains:
            hook = {"hook": "prerouting", "type": kind, "priority": priority, "policy": NF_ACCEPT}
            self.network.rules[node].chain("add", table=TABLE, name=name, **hook)
            self.chains.add((node, name))

    def _from(self, node: str) -> Expressions:
        return _address(self.network.address[node])

    def _rule(self, node: str, chain: str, address: str, port: int | None = None) -> tuple[int, int]:
        """How many packets a rule has counted, and its handle."""
        wanted = [socket.inet_aton(address), *([struct.pack("!H", port)] if port is not None else [])]
        for rule in self.network.rules[node].get_rules():
            if rule.get_attr("NFTA_RULE_CHAIN") != chain:
                continue
            compared, count = [], 0
            for part in rule.get_attr("NFTA_RULE_EXPRESSIONS"):
                name, data = part.get_attr("NFTA_EXPR_NAME"), part.get_attr("NFTA_EXPR_DATA")
                if name == "cmp":
                    compared.append(data.get_attr("NFTA_CMP_DATA").get_attr("NFTA_DATA_VALUE"))
                elif name == "counter":
                    count = data.get_attr("NFTA_COUNTER_PACKETS")
            if all(value in compared for value in wanted):
                return count, rule.get_attr("NFTA_RULE_HANDLE")
        raise RuntimeError(f"the rule for packets from {address} is not on {node}")


def _address(source: str) -> Expressions:
    from pyroute2.nftables.expressions import ipv4addr

    return list(ipv4addr(src=source))


def _tcp(port: int) -> Expressions:
    return [
        _expression("meta", META_KEY=L4PROTO, META_DREG=1), _compare(bytes([socket.IPPROTO_TCP])),
        _expression("payload", PAYLOAD_DREG=1, PAYLOAD_BASE=TRANSPORT, PAYLOAD_OFFSET=2, PAYLOAD_LEN=2),
        _compare(struct.pack("!H", port)),
    ]  # fmt: skip


def _redirect(to: int) -> Expressions:
    return [
        _expression("immediate", IMMEDIATE_DREG=1, IMMEDIATE_DATA=_value(struct.pack("!H", to))),
        _expression("redir", REDIR_REG_PROTO_MIN=1, REDIR_FLAGS=("NF_NAT_RANGE_PROTO_SPECIFIED",)),
    ]


def _random_below(share: float) -> Expressions:
    """True for that share of packets. The kernel's own dice: no seed reaches them."""
    return [
        _expression("numgen", NG_DREG=1, NG_MODULUS=PARTS, NG_TYPE=1, NG_OFFSET=0),
        _expression("byteorder", BYTEORDER_SREG=1, BYTEORDER_DREG=1, BYTEORDER_OP=1, BYTEORDER_LEN=4, BYTEORDER_SIZE=4),
        _compare(struct.pack("!I", round(share * PARTS)), LESS),
    ]


def _compare(value: bytes, operation: int = 0) -> dict[str, Any]:
    return _expression("cmp", CMP_SREG=1, CMP_OP=operation, CMP_DATA=_value(value))


def _counter() -> dict[str, Any]:
    return _expression("counter", COUNTER_BYTES=0, COUNTER_PACKETS=0)


def _verdict(code: int) -> Expressions:
    from pyroute2.nftables.expressions import verdict

    return list(verdict(code))


def _value(data: bytes) -> dict[str, Any]:
    return {"attrs": [("NFTA_DATA_VALUE", data)]}


def _expression(name: str, **attributes: Any) -> dict[str, Any]:
    data = [(f"NFTA_{key}", value) for key, value in attributes.items()]
    return {"attrs": [("NFTA_EXPR_NAME", name), ("NFTA_EXPR_DATA", {"attrs": data})]}
