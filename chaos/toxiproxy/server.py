"""The process: options, the announcement, and its end."""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from secrets import randbits

from chaos.toxiproxy import decode
from chaos.toxiproxy.addresses import SO_MARK
from chaos.toxiproxy.api import VERSION, Api
from chaos.toxiproxy.collection import Collection
from chaos.toxiproxy.errors import ApiError
from chaos.toxiproxy.events import Log
from chaos.toxiproxy.loop import Loop
from chaos.toxiproxy.metrics import Counts
from chaos.toxiproxy.proxy import Shared

PR_SET_PDEATHSIG = 1
RESERVE = 32  # descriptors for the API: a heal must not wait until clients have gone


class CannotStart(Exception):
    """What is wrong, for the user."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM, or until whoever started it has gone. The first line said is one of JSON."""
    options = _parser().parse_args(arguments)
    loop = Loop()
    with ExitStack() as stack:
        stack.callback(loop.close)
        try:
            if options.dead_man is not None:
                _die_with_parent()
            if options.mark:
                _try_mark(options.mark)
            file = stack.enter_context(open(options.events, "a", encoding="utf-8")) if options.events else None
            loop.run_until_complete(_serve(loop, options, Log(file)))
        except (CannotStart, OSError) as error:
            print(f"chaos.toxiproxy: {error}", file=sys.stderr)
            return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos.toxiproxy", description=main.__doc__)
    parser.add_argument("--host", default="localhost", help="where the API listens (localhost)")
    parser.add_argument("--port", type=int, default=8474, help="0 takes a free one (8474)")
    parser.add_argument("--seed", type=int, help="of toxicity, jitter and all other dice; drawn and said if not given")
    parser.add_argument("--proxy-metrics", action="store_true", help="serve byte counters at /metrics")
    parser.add_argument("--config", type=Path, help="proxies to begin with: a JSON file as for /populate")
    parser.add_argument("--events", type=Path, help="append every event to this file as a line of JSON")
    parser.add_argument("--dead-man", type=int, metavar="FD", help="end when this descriptor reads end of file")
    parser.add_argument("--mark", type=int, default=0, help="SO_MARK of connections to upstreams")
    parser.add_argument("--dial-within", type=float, default=10.0, metavar="S", help="seconds for a connect (10)")
    return parser


async def _serve(loop: Loop, options: argparse.Namespace, log: Log) -> None:
    seed = randbits(53) if options.seed is None else options.seed
    highest = _allow_many_files() - RESERVE
    shared = Shared(loop, log, Counts(), seed, options.mark, options.dial_within, highest)
    collection = Collection(shared)
    if options.config is not None:
        _populate(collection, options.config)
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    if options.dead_man is not None:
        os.set_blocking(options.dead_man, False)
        loop.add_reader(options.dead_man, _listen_to, options.dead_man, over)
    try:
        from chaos.toxiproxy.http import Http
    except ImportError as error:
        raise CannotStart(f"{error}: pip install 'mlchaos[network]'") from error
    api = Api(collection, log, proxy_metrics=options.proxy_metrics)
    server = await loop.create_server(lambda: Http(api.answer), _first(options.host), options.port)
    at = server.sockets[0].getsockname()
    url = f"http://{f'[{at[0]}]' if ':' in at[0] else at[0]}:{at[1]}"
    gc.collect()
    gc.freeze()  # what was imported stays; a collection that looks at it all would be seen as latency
    print(json.dumps({"listening": url, "seed": seed, "version": VERSION, "pid": os.getpid()}), flush=True)
    await over.wait()
    server.close()
    collection.close()


def _populate(collection: Collection, config: Path) -> None:
    try:
        collection.populate(decode.all_wanted(config.read_bytes()))
    except ApiError as error:
        raise CannotStart(f"{config}: {error}") from error


def _first(host: str) -> str:
    """One address, IPv4 first: `localhost` is one place to callers."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise CannotStart(f"--host {host}: {error}") from error
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


def _listen_to(descriptor: int, over: asyncio.Event) -> None:
    """Anything but bytes on it means that nobody holds the other end any more."""
    try:
        if os.read(descriptor, 4096):
            return
    except BlockingIOError:
        return
    except OSError:
        pass
    over.set()


def _die_with_parent() -> None:
    """A second string to the bow: the kernel ends this process with its parent, even while it hangs."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _try_mark(mark: int) -> None:
    with socket.socket() as sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_MARK, mark)
        except PermissionError as error:
            raise CannotStart("--mark needs CAP_NET_ADMIN in this network namespace") from error


def _allow_many_files() -> int:
    """How many there may be; each connection takes two."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 30
