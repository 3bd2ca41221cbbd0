"""What a call is about: collectives, checkpoints, a store or another service, health. Told by its name alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from chaos.inventory.calls import last_word
from chaos.inventory.flow import within
from chaos.inventory.source import Function, Module, Program, written
from chaos.paths import Concern

# By the dotted name behind an import; the longest that fits counts.
_LIBRARIES: Mapping[str, Concern] = {
    "torch.distributed": "collective",
    "torch.distributed.checkpoint": "checkpoint",
    "torchft": "collective",
    "horovod": "collective",
    "mpi4py": "collective",
    "deepspeed": "collective",
    "torch.load": "checkpoint",
    "torch.save": "checkpoint",
    "safetensors": "checkpoint",
    "orbax": "checkpoint",
    **dict.fromkeys(
        ("redis", "boto3", "botocore", "aioboto3", "s3fs", "fsspec", "requests", "httpx", "aiohttp", "urllib.request",
         "urllib.error", "urllib3", "http.client", "socket", "grpc", "psycopg", "psycopg2", "asyncpg", "pymongo",
         "etcd3", "kazoo", "zmq", "pika", "kafka", "confluent_kafka", "asyncio.open_connection", "anyio.connect_tcp",
         "google.cloud.storage", "azure.storage", "os.fsync"),
        "store",
    ),
}  # fmt: skip
# By the last word, whatever it is called on.
_WORDS: Mapping[str, Concern] = {
    **dict.fromkeys(
        ("all_reduce", "allreduce", "all_gather", "allgather", "all_gather_object", "all_gather_into_tensor",
         "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "broadcast_object_list", "barrier",
         "monitored_barrier", "init_process_group", "destroy_process_group", "new_group"),
        "collective",
    ),
    **dict.fromkeys(
        ("save", "load", "restore", "commit", "save_checkpoint", "load_checkpoint", "restore_checkpoint",
         "load_state_dict", "save_state", "load_state", "from_pretrained", "save_pretrained", "save_file", "load_file",
         "async_save"),
        "checkpoint",
    ),
    **dict.fromkeys(
        ("connect", "connect_tcp", "create_connection", "open_connection", "reconnect", "urlopen", "put_object",
         "get_object", "head_object", "upload_file", "download_file", "upload_fileobj", "download_fileobj", "hget",
         "hgetall", "hset", "setex", "sendall", "recv", "getresponse"),
        "store",
    ),
    **dict.fromkeys(("ping", "healthz", "heartbeat", "health_check", "healthcheck", "check_health"), "health"),
}  # fmt: skip
# By the last part of what it is called on: `self._http.get`, `redis.get`, `s3.put`.
_RECEIVERS = frozenset(
    {"http", "client", "redis", "s3", "bucket", "store", "connection", "conn", "sock", "stub", "etcd"}
)
_ASKED = frozenset(
    {"get", "post", "put", "delete", "request", "call", "ask", "send", "receive", "fetch", "read", "write", "execute",
     "patch", "head", "set", "invoke", "rpc", "publish"}
)  # fmt: skip
_VAGUE = frozenset({"save", "load", "restore", "commit"})
# `json.load` reads no checkpoint.
_PLAIN = ("json", "yaml", "toml", "tomllib", "tomli", "configparser", "csv", "ast", "msgspec", "logging", "string")
# Names of exceptions that say it themselves, whoever defines them.
_RAISED: tuple[tuple[re.Pattern[str], Concern], ...] = (
    (re.compile("NCCL|Nccl|Collective"), "collective"),
    (re.compile("Checkpoint|Corrupt|Damaged|Torn"), "checkpoint"),
    (re.compile("^Connect|^BrokenPipe|Unreachable|Unavailable|Disconnect"), "store"),
)
# Parts of names that say what is done after a failure.
MENDS = re.compile(
    r"(?:^|_)(?:retry|retries|recover|recovery|restore|reload|rollback|roll_back|fallback|fall_back|failover|fail_over"
    r"|reconnect|reinit|reinitialize|restart|rejoin|resume|rebuild|requeue|resync|degrade|promote|quarantine"
    r"|shrink|evict|eject)(?:$|_)"
)
_BOUNDS = frozenset({"timeout", "fail_after", "move_on_after", "wait_for"})
_THREADS = frozenset({"to_thread", "run_sync"})
_DEPTH = 2  # functions of the target that a call is followed into


class About(NamedTuple):
    """A call, and what it is about."""

    concern: Concern
    call: str


class Concerns:
    """Looks at calls of one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._of: dict[tuple[int, int], Concern | None] = {}

    def first(self, nodes: list[ast.stmt], module: Module) -> About | None:
        """The first call among statements that is about something; else the first that leads to one."""
        calls = calls_of(nodes)
        for depth in range(_DEPTH + 1):
            for call in calls:
                if (concern := self._call(call, module, depth)) is not None:
                    return About(concern, call_text(call))
        return None

    def named(self, node: ast.expr, module: Module) -> Concern | None:
        """What an exception type is about: one of a library, or of the target's own that is a ConnectionError."""
        for each in self._types(node, module, 0):
            if each is not None:
                return each
        return None

    def mended(self, nodes: list[ast.stmt], module: Module) -> Concern | None:
        """What the first call that mends something, such as `restore_checkpoint`, mends."""
        for call in calls_of(nodes):
            if MENDS.search(last_word(call.func)):
                return self.direct(call, module) or "other"
        return None

    def direct(self, call: ast.Call, module: Module) -> Concern | None:
        """What a call itself is about."""
        dotted = written(call.func)
        meant = self._program.meaning(call.func, module) if dotted is not None else None
        if dotted is not None and dotted.partition(".")[0] in module.imports and meant is not None:
            if meant.startswith(tuple(f"{plain}." for plain in _PLAIN)):
                return None
            if (concern := _library(meant)) is not None:
                return concern
        word = last_word(call.func)
        if isinstance(call.func, ast.Attribute):
            receiver = last_word(call.func.value).strip("_").rpartition("_")[2]
            if receiver in _RECEIVERS and word in _ASKED:
                return "store"
        elif word in _VAGUE and self._program.defined(call.func, module) is not None:
            return None  # a function of the target's own: what it does counts, not its name
        return _WORDS.get(word)

    def _call(self, call: ast.Call, module: Module, depth: int) -> Concern | None:
        if (concern := self.direct(call, module)) is not None or depth == 0:
            return concern
        found = own(self._program, call, module)
        if found is None:
            return None
        inner, function = found
        key = (id(function), depth)
        if key not in self._of:
            self._of[key] = None  # a function that calls itself
            below = (n for n in within(function.body) if isinstance(n, ast.Call))
            self._of[key] = next((c for n in below if (c := self._call(n, inner, depth - 1)) is not None), None)
        return self._of[key]

    def _types(self, node: ast.expr, module: Module, depth: int) -> Iterator[Concern | None]:
        if depth > 4:
            return
        if isinstance(node, ast.Tuple | ast.List):
            for each in node.elts:
                yield from self._types(each, module, depth)
        elif isinstance(node, ast.Starred):
            yield from self._types(node.value, module, depth)
        elif isinstance(node, ast.Name | ast.Attribute):
            meant = self._program.meaning(node, module) or ""
            yield _exception(meant)
            for value, inner in constant(self._program, node, module):
                yield from self._types(value, inner, depth + 1)
            found = self._program.defined(node, module)
            if found is not None and isinstance(found[1], ast.ClassDef):
                for base in found[1].bases:
                    yield from self._types(base, found[0], depth + 1)


def constant(program: Program, node: ast.Name | ast.Attribute, module: Module) -> Iterator[tuple[ast.expr, Module]]:
    """What a name at the top of a file stands for: `FAILURES` of `except FAILURES`."""
    if isinstance(node, ast.Name) and node.id not in module.imports:
        yield from ((value, module) for value in module.assigned(node.id, None))
        return
    dotted = written(node)
    if dotted is None or dotted.partition(".")[0] not in module.imports:
        return
    first, dot, rest = dotted.partition(".")
    found = program.locate(program.canonical(module.imports[first] + dot + rest, module), module)
    if found is not None and "." not in found[1]:
        yield from ((value, found[0]) for value in found[0].assigned(found[1], None))


def own(program: Program, call: ast.Call, module: Module) -> tuple[Module, Function] | None:
    """The function of the target that a call runs, where its name says so: `self.f()`, `f()`, `module.f()`."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            cls = module.class_around(call)
            body = cls.body if cls is not None else []
            method = next((n for n in body if isinstance(n, Function) and n.name == name), None)
            return (module, method) if method is not None else None
    found = program.defined(call.func, module)
    return (found[0], found[1]) if found is not None and isinstance(found[1], Function) else None


def calls_of(nodes: list[ast.stmt]) -> list[ast.Call]:
    """The calls among statements, without those that only bound them in time."""
    calls = (node for node in within(nodes) if isinstance(node, ast.Call))
    return [call for call in calls if last_word(call.func) not in _BOUNDS]


def call_text(call: ast.Call) -> str:
    """`self._store.commit` of a call; of `to_thread(self._store.commit)` as well."""
    handed = last_word(call.func) in _THREADS and call.args
    text = re.sub(r"\s+", " ", ast.unparse(call.args[0] if handed else call.func))
    return text if len(text) <= 60 else f"…{text[-59:]}"


def _exception(meant: str) -> Concern | None:
    word = meant.rpartition(":")[2].rpartition(".")[2]
    concern = _library(meant)
    if concern == "collective" and not word.startswith("Dist"):
        concern = None  # what else of torch.distributed is raised is a mistake of the program
    return concern or next((c for pattern, c in _RAISED if pattern.search(word)), None)


def _library(meant: str) -> Concern | None:
    parts = meant.split(".")
    prefixes = (".".join(parts[:size]) for size in range(len(parts), 0, -1))
    return next((_LIBRARIES[prefix] for prefix in prefixes if prefix in _LIBRARIES), None)
