"""Declared recovery paths are found by reading, through every indirection that people write."""

from __future__ import annotations

import pytest

from chaos.paths import Inventory, Spot

from .conftest import Take

IMPORT = "from chaos.inside import emit, recovers, recovery_path\n"


def names(inventory: Inventory) -> list[str]:
    assert inventory.problems == ()
    return [path.name for path in inventory.paths]


@pytest.mark.parametrize(
    "source",
    [
        "from chaos.inside import recovery_path\nwith recovery_path('a.b'): pass",
        "from chaos.inside import recovery_path as path\nwith path('a.b'): pass",
        "from chaos import inside\nwith inside.recovery_path('a.b'): pass",
        "from chaos import inside as i\nwith i.recovery_path('a.b'): pass",
        "import chaos.inside\nwith chaos.inside.recovery_path('a.b'): pass",
        "import chaos.inside as i\nwith i.recovery_path(name='a.b'): pass",
        "from chaos.inside import *\nwith recovery_path('a.b'): pass",
        "from chaos import inside\nenter = inside.recovery_path\nwith enter('a.b'): pass",
        "from functools import partial\nfrom chaos.inside import recovery_path\nretry = partial(recovery_path, 'a.b')",
        "def late():\n    from chaos.inside import recovery_path\n    with recovery_path('a.b'): pass",
        "try:\n    from chaos.inside import recovery_path\nexcept ImportError:\n    recovery_path = None\n"
        "with recovery_path('a.b'): pass",
    ],
)
def test_any_way_to_import_it_counts(take: Take, source: str) -> None:
    assert names(take(source)) == ["a.b"]


@pytest.mark.parametrize(
    "source",
    [
        "def f(stack):\n    stack.enter_context(recovery_path('a.b'))",
        "def f():\n    path = recovery_path('a.b')\n    path.__enter__()",
        "@recovers('a.b')\ndef f(): pass",
        "async def f(suppress):\n    with suppress(OSError), recovery_path('a.b'): pass",
        "def f(error):\n    with recovery_path('a.b') if error else None: pass",
        "emit('path.exercised', name='a.b')",
    ],
)
def test_any_way_to_enter_it_counts(take: Take, source: str) -> None:
    assert names(take(IMPORT + source)) == ["a.b"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("NAME = 'a.b'\nrecovery_path(NAME)", ["a.b"]),
        ("NAME: Final = 'a.b'\nrecovery_path(NAME)", ["a.b"]),
        ("recovery_path('a.b' if late else 'a.c')", ["a.b", "a.c"]),
        ("recovery_path('a.' + 'b')", ["a.b"]),
        ("VERB = 'b'\nrecovery_path(f'a.{VERB}')", ["a.b"]),
        ("for verb in ('b', 'c'):\n    recovery_path(f'a.{verb}')", ["a.b", "a.c"]),
        ("PATHS = {'x': 'a.b', 'y': 'a.c'}\nrecovery_path(PATHS[action])", ["a.b", "a.c"]),
        ("PATHS = {'x': 'a.b', 'y': 'a.c'}\nrecovery_path(PATHS['x'])", ["a.b"]),
        ("PATHS = {1: 'a.b'}\nif path := PATHS.get(action):\n    recovery_path(path)", ["a.b"]),
        ("PATHS = {1: 'a.b'}\nrecovery_path(PATHS.get(action, 'a.c'))", ["a.b", "a.c"]),
        ("MORE = {2: 'a.c'}\nPATHS = {1: 'a.b', **MORE}\nrecovery_path(PATHS[x])", ["a.b", "a.c"]),
        ("PATHS = {1: 'a.b'} | {2: 'a.c'}\nrecovery_path(PATHS[x])", ["a.b", "a.c"]),
        ("PATHS = {}\nPATHS[1] = 'a.b'\nrecovery_path(PATHS[x])", ["a.b"]),
        ("PATHS = {1: {2: 'a.b'}}\nrecovery_path(PATHS[x][y])", ["a.b"]),
        ("PATHS = dict(x='a.b')\nrecovery_path(PATHS[x])", ["a.b"]),
        ("PATHS = ('a.b', 'a.c')\nfor path in PATHS:\n    recovery_path(path)", ["a.b", "a.c"]),
        ("PATHS = {1: 'a.b'}\nfor path in PATHS.values():\n    recovery_path(path)", ["a.b"]),
        ("def f(x):\n    path = 'a.b'\n    if x:\n        path = 'a.c'\n    recovery_path(path)", ["a.b", "a.c"]),
        ("class P:\n    RETRY = 'a.b'\nrecovery_path(P.RETRY)", ["a.b"]),
        ("class P(Enum):\n    RETRY = 'a.b'\nrecovery_path(P.RETRY.value)", ["a.b"]),
        ("class P:\n    name = 'a.b'\n    def f(self):\n        recovery_path(self.name)", ["a.b"]),
        ("def name(x):\n    return 'a.b' if x else 'a.c'\nrecovery_path(name(1))", ["a.b", "a.c"]),
    ],
)
def test_a_name_is_followed_to_where_it_is_written(take: Take, source: str, expected: list[str]) -> None:
    assert names(take(IMPORT + source)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def path(name):\n    return recovery_path(name)\npath('a.b')\npath(name='a.c')", ["a.b", "a.c"]),
        ("def path(x, *, name='a.b'):\n    return recovery_path(name)\npath(1)", ["a.b"]),
        ("def one(a):\n    two(a)\ndef two(b):\n    recovery_path(b)\none('a.b')", ["a.b"]),
        ("class F:\n    def path(self, name):\n        return recovery_path(name)\nF().path('a.b')", ["a.b"]),
        (
            "class P:\n    def __init__(self, name):\n        self._name = name\n"
            "    def enter(self):\n        recovery_path(self._name)\nP('a.b')\nP('a.c')",
            ["a.b", "a.c"],
        ),
        (
            "class P:\n    path = 'a.b'\n    def enter(self):\n        recovery_path(self.path)\n"
            "class Q(P):\n    path = 'a.c'\nclass R(Q):\n    def __init__(self):\n        self.path = 'a.d'",
            ["a.b", "a.c", "a.d"],
        ),
        ("class P:\n    path = 'a.b'\nclass Q(P):\n    def enter(self):\n        recovery_path(self.path)", ["a.b"]),
        (
            "try:\n    import torch\n    def path():\n        return 'a.b'\nexcept ImportError:\n"
            "    def path():\n        return 'a.c'\nrecovery_path(path())",
            ["a.b", "a.c"],
        ),
        ("n = 1\nn += 1\ndef f():\n    n = 'a.b'\n    recovery_path(n)", ["a.b"]),
        ("def run(path):\n    recovery_path(path())\nrun(lambda: 'a.b')\nrun(path=lambda: 'a.c')", ["a.b", "a.c"]),
        ("def f():\n    def path(name):\n        return recovery_path(name)\n    path('a.b')", ["a.b"]),
        ("def path(name, again=True):\n    recovery_path(name)\n    path(name, False)\npath('a.b')", ["a.b"]),
    ],
)
def test_a_function_that_passes_its_parameter_on_is_a_way_to_enter(
    take: Take, source: str, expected: list[str]
) -> None:
    assert names(take(IMPORT + source)) == expected


def test_a_method_of_the_same_name_of_another_class_is_none(take: Take) -> None:
    source = """
        class Facts:
            def path(self, name):
                return recovery_path(name)

        class Files:
            def path(self, name):
                return name

            def find(self):
                return self.path('no.path')

        Facts().path('a.b')
    """
    assert names(take(IMPORT + source.replace("\n        ", "\n"))) == ["a.b"]


@pytest.mark.parametrize(
    "receiver",
    [
        "def f(files: Files):\n    files.path('no.path')",
        "def f(files: 'Files | None'):\n    files.path('no.path')",
        "class U:\n    def __init__(self, files: Files):\n        self._files = files\n"
        "    def f(self):\n        self._files.path('no.path')",
        "class U:\n    files: Files\n    def f(self):\n        self.files.path('no.path')",
        "files = Files()\nfiles.path('no.path')",
        "Files().path('no.path')",
    ],
)
def test_an_object_of_another_class_enters_no_path_by_a_method_of_that_name(take: Take, receiver: str) -> None:
    classes = "class Facts:\n    def path(self, name):\n        recovery_path(name)\nclass Files:\n    pass\n"
    assert names(take(f"{IMPORT}{classes}Facts().path('a.b')\n{receiver}")) == ["a.b"]
    # An object of a class that is built on it does.
    built = receiver.replace("Files", "Facts").replace("no.path", "a.c")
    assert names(take(f"{IMPORT}{classes}Facts().path('a.b')\n{built}")) == ["a.b", "a.c"]


def test_names_are_followed_into_other_files(take: Take) -> None:
    inventory = take(
        "from tables import PATHS, Ways\nimport tables\nfrom facts import path, enter\n"
        "path(PATHS[x])\nenter(tables.ONE)\nenter(Ways.TWO)",
        tables="PATHS = {1: 'a.b'}\nONE = 'a.c'\nclass Ways:\n    TWO = 'a.d'",
        facts="from chaos.inside import recovery_path as enter\ndef path(name):\n    return enter(name)",
    )
    assert names(inventory) == ["a.b", "a.c", "a.d"]
    assert inventory.find("a.c") is not None
    assert inventory.paths[1].declared == (Spot("tables.py", 2),)


def test_of_two_files_of_one_name_the_nearer_one_is_meant(take: Take) -> None:
    inventory = take(
        "",
        old__tables="NAME = 'a.old'",
        old__main=IMPORT + "from tables import NAME\nrecovery_path(NAME)",
        new__tables="NAME = 'a.new'",
        new__main=IMPORT + "from .tables import NAME\nrecovery_path(NAME)",
    )
    assert [(path.name, str(path.where)) for path in inventory.paths] == [
        ("a.new", "new/tables.py:1"), ("a.old", "old/tables.py:1"),
    ]  # fmt: skip


def test_a_name_of_the_file_may_be_given_in_a_function(take: Take) -> None:
    source = "NAME = None\ndef choose():\n    global NAME\n    NAME = 'a.b'\ndef f():\n    recovery_path(NAME)"
    assert names(take(IMPORT + source)) == ["a.b"]


def test_the_place_is_where_the_name_is_written(take: Take) -> None:
    inventory = take(IMPORT + "PATHS = {\n    'x': 'a.b',\n    'y': 'a.c',\n}\nrecovery_path(PATHS[x])\n")
    assert [path.declared for path in inventory.paths] == [(Spot("main.py", 3),), (Spot("main.py", 4),)]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import os\nrecovery_path(os.environ['NAME'])", 3),
        ("recovery_path(input())", 2),
        ("from elsewhere import NAME\nrecovery_path(NAME)", 3),
        ("def path(name):\n    return recovery_path(name)", 2),
        ("def path(name):\n    return recovery_path(name)\npath(*names)", 4),
        ("run(recovery_path)", 2),
        ("recovery_path(*names)", 2),
        ("for name, _ in pairs:\n    recovery_path(name)", 3),
        ("PATHS = {'x': 'a.b', 'y': made()}\nrecovery_path(PATHS[z])", 2),
        ("match action:\n    case str(name):\n        recovery_path(name)", 4),
        ("(lambda name: recovery_path(name))('a.b')", 2),
        ("enter = map(lambda name: recovery_path(name), ['a.b'])", 2),
        ("name = 'a'\nname += '.b'\nrecovery_path(name)", 3),
        ("def f():\n    name = 'a'\n    name += end\n    recovery_path(name)", 4),
    ],
)
def test_what_cannot_be_told_is_a_problem_with_its_place(take: Take, source: str, line: int) -> None:
    inventory = take(IMPORT + source)
    assert [problem.partition(": ")[0] for problem in inventory.problems] == [f"main.py:{line}"]


def test_a_file_that_is_no_python_is_a_problem(take: Take) -> None:
    inventory = take("print 'two'\n", other=IMPORT + "recovery_path('a.b')")
    assert [path.name for path in inventory.paths] == ["a.b"]
    (problem,) = inventory.problems
    assert problem.startswith("main.py:1: cannot be read: ")


def test_what_is_nested_beyond_reason_is_a_problem(take: Take) -> None:
    deep = " + ".join(["'a'"] * 900)
    source = f"recovery_path({deep})\ndef f(d):\n try:\n  return store.get(1)\n except OSError:\n  return d + {deep}"
    inventory = take(IMPORT + source.replace("'a'", "x"))
    assert [problem.partition(": ")[0] for problem in inventory.problems] == ["main.py:2", "main.py:1"]
    assert all("too deeply" in problem for problem in inventory.problems)


def test_a_function_of_that_name_that_is_another_is_none(take: Take) -> None:
    assert names(take("def recovery_path(name): pass\nrecovery_path('a.b')\nmine.recovery_path('a.c')")) == []


def test_a_path_that_only_a_test_declares_is_none_of_the_program(take: Take) -> None:
    assert names(take("", test_it=IMPORT + "recovery_path('a.b')")) == []


def test_listed_and_declared_paths_are_one_list(take: Take) -> None:
    inventory = take(IMPORT + "recovery_path('a.b')\nrecovery_path('a.c')", listed="\n- a.b\n- a.d")
    rows = [(path.name, path.listed, path.declared) for path in inventory.paths]
    assert rows == [
        ("a.b", Spot("target.yaml", 4), (Spot("main.py", 2),)),
        ("a.c", None, (Spot("main.py", 3),)),
        ("a.d", Spot("target.yaml", 5), ()),
    ]
