"""Run within a network of its own: connections to an upstream are redirected to a proxy. Says what came of it.

`unshare --user --map-root-user --net python -m tests.toxiproxy_server.redirected`
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from typing import Any

from .harness import receive, serving, upstream

TABLE, MARK = "redirected", 7
META_MARK, META_L4PROTO = 3, 16
EQUAL, OTHER = 0, 1
AT_NAT = -100  # the hook's usual priority for changing destinations


def main() -> None:
    from pyroute2 import IPRoute
    from pyroute2.nftables.main import NFTables

    with IPRoute() as route:
        route.link("set", index=1, state="up")
    with (
        upstream(lambda sock: sock.sendall(b"real")) as port,
        serving("--mark", str(MARK)) as server,
        NFTables(nfgen_family=socket.AF_INET) as rules,
    ):
        proxy = server.proxy("original:", "all")
        rules.table("add", name=TABLE)
        rules.chain("add", table=TABLE, name=TABLE, hook="output", type="nat", priority=AT_NAT, policy=1)
        rules.rule("add", table=TABLE, chain=TABLE, expressions=(redirect(port, proxy.port),))
        proxy.add("latency", latency=1)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            said = receive(client, 4).decode()
        with proxy.connect() as client:  # nobody redirected this one
            direct = client.recv(1).decode()
        json.dump({"said": said, "direct": direct, "port": port, "events": proxy.events()}, sys.stdout)


def redirect(port: int, to: int) -> list[dict[str, Any]]:
    """What is sent to that TCP port, but not by whoever sets the mark."""
    return [
        expression("meta", META_KEY=META_MARK, META_DREG=1), compare(OTHER, struct.pack("=I", MARK)),
        expression("meta", META_KEY=META_L4PROTO, META_DREG=1), compare(EQUAL, bytes([socket.IPPROTO_TCP])),
        expression("payload", PAYLOAD_DREG=1, PAYLOAD_BASE=2, PAYLOAD_OFFSET=2, PAYLOAD_LEN=2),
        compare(EQUAL, struct.pack("!H", port)),
        expression("immediate", IMMEDIATE_DREG=1, IMMEDIATE_DATA=value(struct.pack("!H", to))),
        expression("redir", REDIR_REG_PROTO_MIN=1, REDIR_FLAGS=("NF_NAT_RANGE_PROTO_SPECIFIED",)),
    ]  # fmt: skip


def compare(operation: int, data: bytes) -> dict[str, Any]:
    return expression("cmp", CMP_SREG=1, CMP_OP=operation, CMP_DATA=value(data))


def value(data: bytes) -> dict[str, Any]:
    return {"attrs": [("NFTA_DATA_VALUE", data)]}


def expression(name: str, **attributes: Any) -> dict[str, Any]:
    data = [(f"NFTA_{key}", member) for key, member in attributes.items()]
    return {"attrs": [("NFTA_EXPR_NAME", name), ("NFTA_EXPR_DATA", {"attrs": data})]}


if __name__ == "__main__":
    main()
