"""Code that goes on another way after a failure is found; code that only says so, passes it on or cleans up is not."""

from __future__ import annotations

from textwrap import dedent

import pytest

from chaos.paths import Spot

from .conftest import Take

FOUND = {
    "a loop that success ends": (
        """
        def ask(store):
            while True:
                try:
                    return store.get("x")
                except ConnectionError:
                    pass
        """,
        ("store", "tries again"),
    ),
    "a count of attempts": (
        """
        import requests
        def ask(url):
            for attempt in range(3):
                try:
                    answer = requests.get(url)
                    break
                except requests.RequestException:
                    time.sleep(1)
        """,
        ("store", "tries again"),
    ),
    "a loop that goes on after a pause": (
        """
        def watch(client):
            while True:
                try:
                    client.ping()
                except Exception:
                    time.sleep(1)
        """,
        ("health", "tries again"),
    ),
    "a loop whose rest success reaches": (
        """
        import torch.distributed as dist
        def form():
            while True:
                try:
                    dist.init_process_group("nccl")
                except RuntimeError:
                    continue
                return
        """,
        ("collective", "tries again"),
    ),
    "the next one of several": (
        """
        def newest(generations):
            for generation in generations:
                try:
                    return torch.load(generation)
                except Exception:
                    log.warning("damaged")
        """,
        ("checkpoint", "goes on with the next `generation`"),
    ),
    "a call of a function that recovers": (
        """
        def step(self):
            try:
                self.group.all_reduce(grads)
            except RuntimeError:
                self.rebuild_group()
        """,
        ("collective", "calls `self.rebuild_group`"),
    ),
    "the same once more": (
        """
        import os
        def sync(file):
            try:
                os.fsync(file)
            except OSError:
                os.fsync(file)
        """,
        ("store", "calls `os.fsync` again"),
    ),
    "an older checkpoint": (
        """
        def resume(self, path):
            try:
                self.state = read(path)
            except CheckpointException:
                self.state = torch.load(self.older)
        """,
        ("checkpoint", "calls `torch.load`"),
    ),
    "another answer": (
        """
        import redis
        def features(client, user, default):
            try:
                return client.hgetall(user)
            except redis.RedisError:
                return default
        """,
        ("store", "returns `default` instead"),
    ),
    "another value": (
        """
        def features(self, user):
            try:
                found = self.store.get(user)
            except TimeoutError:
                found = self.cache[user]
            return found
        """,
        ("store", "goes on with `self.cache[user]`"),
    ),
    "a peer that is left alone for a while": (
        """
        def send(self, peer):
            try:
                self.client.post(peer)
            except OSError:
                self.down[peer] = time.monotonic() + 1
        """,
        ("store", "remembers it in `self.down[peer]`"),
    ),
    "what follows where the attempt would have returned": (
        """
        def load(self):
            try:
                return torch.load("newest")
            except OSError:
                pass
            return torch.load("older")
        """,
        ("checkpoint", "calls `torch.load` again"),
    ),
    "errors that are suppressed in a loop": (
        """
        def connect(address):
            while True:
                with suppress(OSError):
                    return socket.create_connection(address)
                time.sleep(0.1)
        """,
        ("store", "tries again"),
    ),
    "an answer that is none": (
        """
        import requests
        def ask(url):
            while True:
                answer = requests.get(url)
                if not answer.ok:
                    time.sleep(1)
                    continue
                return answer
        """,
        ("store", "tries again"),
    ),
    "a status that is none": (
        """
        async def ask(self, http, url):
            async with http.get(url) as answer:
                if answer.status >= 500:
                    return self.fallback(url)
                return await answer.json()
        """,
        ("store", "calls `self.fallback`"),
    ),
    "a library that tries again": (
        """
        import tenacity
        @tenacity.retry(stop=tenacity.stop_after_attempt(3))
        def push(s3):
            s3.put_object(Key="x")
        """,
        ("store", "is tried again by `tenacity.retry`"),
    ),
    "a function of the target that asks a store": (
        """
        def read(store):
            return store.get("x")
        def ask(store, default):
            try:
                return read(store)
            except Exception:
                return default
        """,
        ("store", "returns `default` instead"),
    ),
    "a checkpoint that is taken back, whatever failed": (
        """
        def train(self):
            try:
                self.step()
            except RuntimeError:
                self.restore_checkpoint()
        """,
        ("checkpoint", "calls `self.restore_checkpoint`"),
    ),
    "something that is started again": (
        """
        def work(self):
            try:
                self.step()
            except RuntimeError:
                self.restart_worker()
        """,
        ("other", "calls `self.restart_worker`"),
    ),
    "a collective that is lost": (
        """
        from torch import distributed
        def step(default):
            try:
                return go()
            except distributed.DistBackendError:
                return default
        """,
        ("collective", "returns `default` instead"),
    ),
    "a mistake that is mended": (
        """
        def load(path):
            try:
                return torch.load(path)
            except ValueError:
                return roll_back(path)
        """,
        ("checkpoint", "calls `roll_back`"),
    ),
    "an exception of the target's own that says so": (
        """
        class Unreachable(ConnectionError): ...
        FAILURES = (Unreachable, KeyError)
        def ask(peer, known):
            try:
                return peer.answer()
            except FAILURES:
                return known
        """,
        ("store", "returns `known` instead"),
    ),
}  # fmt: skip
QUIET = {
    "raised again": "try:\n    store.get(1)\nexcept OSError:\n    self.close()\n    raise",
    "raised as another": "try:\n    store.get(1)\nexcept OSError as error:\n    raise Lost(retry(1)) from error",
    "the end of the process": "try:\n    store.get(1)\nexcept OSError:\n    restart()\n    sys.exit(1)",
    "passed over": "try:\n    store.get(1)\nexcept OSError:\n    pass",
    "said": "try:\n    store.get(1)\nexcept OSError as error:\n    log.error('lost', error)",
    "handed on": "try:\n    store.get(1)\nexcept OSError as error:\n    self.failed.set()\n    self.tell(error)",
    "an error for the caller": "def f():\n try:\n  return store.get(1)\n except OSError:\n  return Response(503)",
    "text for the caller": "def f():\n try:\n  return store.get(1)\n except OSError:\n  return answer(503, 'gone')",
    "nothing for the caller": "def f():\n try:\n  return store.get(1)\n except OSError:\n  return None",
    "the error itself": "def f():\n try:\n  return store.get(1)\n except OSError as error:\n  return str(error)",
    "an item that is left out": "for x in items:\n try:\n  store.put(x)\n except OSError:\n  continue",
    "a loop that goes on with the next turn": "while True:\n try:\n  store.put(1)\n except OSError:\n  continue\n go()",
    "nothing that can be lost": "while True:\n try:\n  return int(text)\n except ValueError:\n  text = ask()",
    "a file of settings": "import json\ndef f(d):\n try:\n  return json.load(file)\n except OSError:\n  return d",
    "a load of the program's own": "def load(x):\n return int(x)\n"
    "def f(d):\n try:\n  return load(1)\n except OSError:\n  return d",
    "a missing module": "try:\n import redis\n redis.ping()\nexcept ImportError:\n reload(redis)",
    "a cancelled task": "def f(d):\n try:\n  return store.get(1)\n except CancelledError:\n  return d",
    "a mistake of the program": "def f(d):\n try:\n  return store.get(1)\n except AttributeError:\n  return d",
    "a form that is another": "def f(d):\n try:\n  return torch.load(a)\n except TypeError:\n  return torch.load(b)",
    "nothing there": "def f(d):\n try:\n  return torch.load(a)\n except FileNotFoundError:\n  return start(d)",
    "a function in a loop": "for x in range(3):\n def f():\n  try:\n   return store.get(1)\n  except OSError:\n   pass",
    "word of a failure": "def f(d):\n try:\n  store.put(1)\n except OSError:\n  return d",
    "an answer that is asked for later": "def f(a):\n if not a.ok:\n  self.fallback()\n a = client.get(1)\n return a",
    "a mistake in the use of a library": "from torch.distributed import tensor\n"
    "def f(d):\n try:\n  return go()\n except tensor.NotSharded:\n  return d",
    "an error that is sent": "try:\n conn.send(1)\nexcept Exception as error:\n conn.send(error)",
    "a suppressed farewell": "with suppress(OSError):\n    store.send('bye')",
    "an answer that is told": "answer = client.get(url)\nif not answer.ok:\n    raise Refused(answer.status)",
    "an answer of nobody": "if not form.ok:\n    restore()",
    "a decorator of the target's own": "@retry\ndef f():\n    store.get(1)",
    "a function that runs later": "def f(d):\n try:\n  return go(lambda: store.get(1))\n except KeyError:\n  return d",
}


@pytest.mark.parametrize("case", FOUND)
def test_going_on_another_way_is_found(take: Take, case: str) -> None:
    source, expected = FOUND[case]
    (handler,) = take(source).undeclared
    assert (handler.concern, handler.does) == expected


@pytest.mark.parametrize("case", QUIET)
def test_anything_else_is_not(take: Take, case: str) -> None:
    inventory = take(QUIET[case])
    assert inventory.problems == ()
    assert inventory.undeclared == ()


def test_a_finding_says_where_and_what(take: Take) -> None:
    inventory = take(
        """
        class Vault:
            def load(self):
                try:
                    return self.store.get("newest")
                except (OSError, TimeoutError):
                    return self.older
        """
    )
    (handler,) = inventory.undeclared
    assert handler.spot == Spot("main.py", 6)
    assert handler.inside == "Vault.load"
    assert handler.catches == ("OSError", "TimeoutError")
    assert handler.calls == "self.store.get"


COVERED = {
    "in the handler": """
        def ask(store, default):
            try:
                return store.get("x")
            except OSError:
                with recovery_path("a.b"):
                    return default
        """,
    "around it": """
        def ask(store, default):
            with recovery_path("a.b"):
                try:
                    return store.get("x")
                except OSError:
                    return default
        """,
    "over the function": """
        @recovers("a.b")
        def ask(store, default):
            try:
                return store.get("x")
            except OSError:
                return default
        """,
    "in a function that it calls": """
        def instead(default):
            with recovery_path("a.b"):
                return default
        def ask(store, default):
            try:
                return store.get("x")
            except OSError:
                return instead(default)
        """,
    "in a method of another that it calls": """
        class Tries:
            def again(self, error):
                self.path()
            def path(self):
                recovery_path("a.b").__enter__()
        def ask(store, tries):
            while True:
                try:
                    return store.get("x")
                except OSError as error:
                    tries.again(error)
        """,
    "over a function that it calls": """
        @recovers("a.b")
        def instead(default):
            return default
        def ask(store, default):
            try:
                return store.get("x")
            except OSError:
                return instead(default)
        """,
    "further down": """
        def ask(store):
            try:
                return store.get("x")
            except OSError as error:
                last = error
            with recovery_path("a.b"):
                return store.get("x")
        """,
    "in the next turn of the loop": """
        def ask(store):
            for attempt in range(3):
                with recovery_path("a.b") if attempt else nullcontext():
                    pass
                try:
                    return store.get("x")
                except OSError:
                    continue
        """,
}


@pytest.mark.parametrize("case", COVERED)
def test_what_a_declared_path_covers_is_not_found(take: Take, case: str) -> None:
    imported = "from chaos.inside import recovers, recovery_path\n"
    inventory = take(imported + dedent(COVERED[case]))
    assert [path.name for path in inventory.paths] == ["a.b"]
    assert inventory.undeclared == ()
    # The same without the path is found, so it is the path that covers it.
    bare = "recovery_path = recovers = lambda name: None\n" + dedent(COVERED[case])
    assert len(take(bare).undeclared) == 1


def test_a_path_elsewhere_in_the_file_covers_nothing(take: Take) -> None:
    inventory = take(
        """
        from chaos.inside import recovery_path
        def other():
            with recovery_path("a.b"):
                pass
        def ask(store, default):
            try:
                return store.get("x")
            except OSError:
                return default
        """
    )
    assert len(inventory.undeclared) == 1


HANDLER = "def ask(store, default):\n    try:\n        return store.get('x')\n{before}    except OSError:{after}\n"
HANDLER += "        return default\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "  # not a recovery path: a cache"), ("    # not a recovery path: a cache\n", "")],
)
def test_a_mark_with_its_reason_takes_one_out(take: Take, before: str, after: str) -> None:
    inventory = take(HANDLER.format(before=before, after=after))
    assert inventory.undeclared == ()
    assert inventory.problems == ()


@pytest.mark.parametrize("mark", ["# not a recovery path", "# not a recovery path:", "# not a recovery path :  "])
def test_a_mark_without_its_reason_is_a_problem(take: Take, mark: str) -> None:
    (problem,) = take(HANDLER.format(before="", after=f"  {mark}")).problems
    assert problem.startswith("main.py:4: ")
    assert "reason" in problem


def test_a_mark_further_away_takes_nothing_out(take: Take) -> None:
    mark = "    # not a recovery path: something else\n"
    for before in (f"{mark}    #\n", "    except KeyError: pass  # not a recovery path: nothing there\n"):
        (handler,) = take(HANDLER.format(before=before, after="")).undeclared
        assert handler.catches == ("OSError",)


def test_a_form_feed_ends_no_line(take: Take) -> None:
    marked = HANDLER.format(before="", after="  # not a recovery path: a cache")
    assert take("# a\x0cb\n" + marked).undeclared == ()
    assert len(take("# a\x0cb\n" + HANDLER.format(before="", after="")).undeclared) == 1


def test_code_of_tests_is_left_out(take: Take) -> None:
    source = HANDLER.format(before="", after="")
    assert len(take(source, test_main=source, conftest=source).undeclared) == 1
