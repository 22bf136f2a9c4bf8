"""A broker core does the same again on the same ports: its rooms ask no global clock, no randomness and no thread of
the machine, and no order comes from the hashes of a set."""

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "ottla"
ROOMS = (
    "core",
    "protocol",
    "records",
    "storage",
    "links",
    "purgatory",
    "coordination",
    "replication",
    "controller",
    "coordinator",
    "broker",
)

# Modules through which code gets at the machine instead of at a port.
MACHINE = {
    "asyncio",
    "concurrent",
    "datetime",
    "multiprocessing",
    "os",
    "queue",
    "random",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
# A class that is seeded by whoever makes one.
HARMLESS = {"random.Random"}
WALL_CLOCK = "ottla.core.clock.wall_clock_ms"

# What stands behind the ports of a broker that runs as a process, and what can't change what a core does.
ALLOWED = {
    "broker/broker.py": {"asyncio", "os", "random", "socket", WALL_CLOCK},
    "broker/background.py": {"asyncio", "concurrent"},
    "broker/metrics/": {"asyncio", "socket", "threading", "time"},  # they measure what really passes
    "broker/handlers/describe_log_dirs.py": {"os"},  # the working directory, for what people read
    "broker/produce_preparation.py": {"threading"},  # a lock within work that is in the background
    "coordination/embedded.py": {"os", "queue", "threading", WALL_CLOCK},  # an engine behind the store's port
    "coordination/embedded_file.py": {"os"},
    "core/clock.py": {"time"},
    "core/operating_system.py": {"os", "select", "socket"},
    "records/kernel.py": {"os"},  # a variable that switches the kernel off
    "records/walk.py": {"threading"},  # memory of each thread
    "storage/log_dirs.py": {"os"},  # the lock against other processes
    "storage/real_disk.py": {"os", "threading"},
}

FILES = [path for room in ROOMS for path in sorted((SOURCE / room).rglob("*.py"))]


def test_rooms_of_the_core_reach_the_machine_only_through_ports() -> None:
    used: dict[str, set[str]] = {}
    for path in FILES:
        name = path.relative_to(SOURCE).as_posix()
        found = {reached for imported in _imports(path.read_text()) if (reached := _reached(imported)) is not None}
        if found:
            where = next((place for place in ALLOWED if name.startswith(place)), name)
            used.setdefault(where, set()).update(found)
    assert used == ALLOWED, "use a port, or name the exception and why it is one"


def _imports(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _reached(imported: str) -> str | None:
    if imported == WALL_CLOCK:
        return imported
    module = imported.partition(".")[0]
    return module if module in MACHINE and imported not in HARMLESS else None


def test_nothing_in_the_core_walks_through_a_set() -> None:
    trees = {path: ast.parse(path.read_text()) for path in FILES}
    functions = {name for tree in trees.values() for name in _functions_that_give_sets(tree)}
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path, tree in trees.items()
        for line in _SetWalks(tree, functions).lines()
    ]
    assert found == [], "use a dict with None for its values, or sort"


@pytest.mark.parametrize(
    "code",
    [
        "for name in {first, second}: pass",
        "names: set[str] = set()\nfor name in names: pass",
        "class A:\n def __init__(self):\n  self.names: set[str] = set()\n def f(self): return list(self.names)",
        "def f(names: frozenset[str]): return [name for name in names]",
        "def f(a, b):\n for key in a.keys() - b.keys(): pass",
        "def names() -> set[str]: ...\nfor name in names(): pass",
        "by_room: dict[str, set[str]] = {}\n','.join(by_room['hall'])",
        "names = {name for name in given}\nnames.pop()",
        "def f(names: set[str], others): return [*(names | others)]",
    ],
)
def test_walk_through_a_set_is_found(code: str) -> None:
    tree = ast.parse(code)
    assert list(_SetWalks(tree, set(_functions_that_give_sets(tree))).lines())


@pytest.mark.parametrize(
    "code",
    [
        "names: set[str] = set()\nfor name in sorted(names): pass",
        "names = set(given)\nprint(any(name in others for name in names), len(names), name in names)",
        "names: set[str] = set()\nothers = {name.lower() for name in names}",
        "names: dict[str, None] = {}\nfor name in names: pass",
    ],
)
def test_what_has_no_order_in_its_result_is_no_walk(code: str) -> None:
    assert not list(_SetWalks(ast.parse(code), set()).lines())


_WITHOUT_ORDER = {"sorted", "set", "frozenset", "any", "all", "sum", "len"}
_WALKING = {"list", "tuple", "iter", "next", "enumerate", "map", "filter", "zip", "dict", "deque", "extend", "join"}
_GIVING_SETS = {"union", "difference", "intersection", "symmetric_difference"}
_SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)


def _functions_that_give_sets(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.returns is not None and _is_set_type(node.returns):
            yield node.name


def _is_set_type(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).strip("'\"").startswith(("set[", "frozenset["))


def _has_sets(annotation: ast.expr) -> bool:
    return "set[" in ast.unparse(annotation) and not _is_set_type(annotation)


class _SetWalks:
    """Where a module walks through something that it calls a set. By names, without types: attributes by theirs in the
    whole module, variables by theirs in one function."""

    def __init__(self, tree: ast.Module, functions: set[str]) -> None:
        self._tree = tree
        self._functions = functions
        self._attributes: set[str] = set()
        self._variables: set[str] = set()  # of the function that is looked at
        self._of_sets: set[str] = set()  # dicts with sets as their values
        self._orderless: set[ast.AST] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _last_name(node.func) in _WITHOUT_ORDER:
                self._orderless.update(node.args)
            elif isinstance(node, ast.AnnAssign | ast.arg) and node.annotation and _has_sets(node.annotation):
                self._of_sets.add(_target_name(node))
            if isinstance(node, ast.AnnAssign | ast.Assign) and self._makes_set(node):
                self._attributes.update(_last_name(each) for each in _targets(node) if isinstance(each, ast.Attribute))
            if isinstance(node, ast.ClassDef):
                self._attributes.update(_set_variables(node.body, self._makes_set))

    def lines(self) -> Iterator[int]:
        of_module = set(_set_variables(self._tree.body, self._makes_set))
        for part in _functions_and_rest(self._tree):
            self._variables = of_module | set(_set_variables(ast.walk(part), self._makes_set))
            yield from self._lines_of(part)

    def _makes_set(self, node: ast.AST) -> bool:
        if isinstance(node, ast.AnnAssign | ast.arg):
            return node.annotation is not None and _is_set_type(node.annotation)
        return isinstance(node, ast.Assign) and self._is_set(node.value)

    def _lines_of(self, part: ast.AST) -> Iterator[int]:
        for node in ast.walk(part):
            if isinstance(node, ast.For) and self._is_set(node.iter):
                yield node.lineno
            elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp) and node not in self._orderless:
                yield from (node.lineno for part in node.generators if self._is_set(part.iter))
            elif isinstance(node, ast.Starred) and self._is_set(node.value):
                yield node.lineno
            elif isinstance(node, ast.Call) and node not in self._orderless:
                name = _last_name(node.func)
                walks = name in _WALKING and any(map(self._is_set, node.args))
                takes_any = name == "pop" and not node.args and self._is_set(getattr(node.func, "value", node.func))
                if walks or takes_any:
                    yield node.lineno

    def _is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Name):
            return node.id in self._variables
        if isinstance(node, ast.Attribute):
            return node.attr in self._attributes
        if isinstance(node, ast.Subscript):
            return _last_name(node.value) in self._of_sets
        if isinstance(node, ast.BinOp) and isinstance(node.op, _SET_OPERATORS):
            return any(self._is_set(side) or _is_keys(side) for side in (node.left, node.right))
        if isinstance(node, ast.Call):
            name = _last_name(node.func)
            if name in _GIVING_SETS and isinstance(node.func, ast.Attribute):
                return self._is_set(node.func.value)
            return name in {"set", "frozenset"} | self._functions
        return False


def _functions_and_rest(tree: ast.Module) -> Iterator[ast.AST]:
    """Functions of the module and methods of its classes, each with those within it; and what is outside of them."""
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        yield from inner


def _set_variables(nodes: Iterable[ast.AST], makes_set: Callable[[ast.AST], bool]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.arg) and makes_set(node):
            yield node.arg
        elif isinstance(node, ast.AnnAssign | ast.Assign) and makes_set(node):
            yield from (each.id for each in _targets(node) if isinstance(each, ast.Name))


def _targets(node: ast.AnnAssign | ast.Assign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _target_name(node: ast.AnnAssign | ast.arg) -> str:
    return node.arg if isinstance(node, ast.arg) else _last_name(node.target)


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _last_name(node.func) == "keys"


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
