"""The way the data goes, held by a table: a layer imports only the layers before it.

Every import statement in ``src/ranksvm`` counts, also those inside functions and those for type
checkers only: a layer that needs the *name* of a later one already depends on it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "ranksvm"

ANYTHING = frozenset({""})

# Who may import whom, beside itself. A dotted name allows that module alone. Top-level modules
# whose name starts with an underscore are helpers, see `allowed_imports`.
ALLOWED: dict[str, frozenset[str]] = {
    "data": frozenset({"_core"}),
    "pairs": frozenset({"data"}),  # what is compared and what it costs, on any device
    "backends": frozenset({"data", "pairs", "_core"}),
    "maps": frozenset({"data", "_core"}),
    "solvers": frozenset(),  # minimisation, ignorant of ranking
    "objective": frozenset({"data", "pairs", "maps", "solvers.base"}),
    # Maps and losses of data in shards: their work is done where the rows are.
    "sharded": frozenset({"data", "pairs", "backends", "maps", "_core"}),
    "models": frozenset({"data"}),  # what was learned, and its file; knows no estimator
    # A data set to a model, without scikit-learn: what estimators and commands share.
    "learners": frozenset({"data", "backends", "pairs", "maps", "solvers", "objective", "models"})
    | {"sharded"},
    "metrics": frozenset({"data", "pairs", "backends", "_core"}),
    "estimators": frozenset({"data", "pairs", "maps", "solvers.base", "learners", "metrics"})
    | {"models", "_core"},
    "kernel_approximation": frozenset({"maps", "estimators.inputs"}),
    "preprocessing": frozenset({"data", "estimators.inputs"}),
    "model_selection": frozenset({"data", "maps", "learners", "estimators", "metrics"})
    | {"models", "pairs.accuracy", "pairs.gains", "solvers.base"},
    "export": frozenset({"data", "models", "learners"}),
    # Shards on a cluster, and the estimators for them.
    "dask": frozenset({"data", "learners", "models", "estimators", "metrics", "model_selection"})
    | {"solvers.base", "sharded"},
    "datasets": frozenset({"data"}),
    "cli": ANYTHING,
    "demo": ANYTHING,
    "__init__": ANYTHING,
    "__main__": ANYTHING,
}

# What a user surely has. Everything else is imported where it is used.
RUN_TIME_DEPENDENCIES = {
    "numpy", "scipy", "sklearn", "narwhals", "safetensors", "threadpoolctl",
}  # fmt: skip
# Layers that are entered only when an extra is there.
BEHIND_EXTRAS = {"cli": {"typer"}}


class Import(NamedTuple):
    """One imported module; ``module`` is relative to ranksvm if ``internal``."""

    line: int
    module: str
    internal: bool
    at_import_time: bool


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def is_module(dotted: str, root: Path) -> bool:
    path = root.joinpath(*dotted.split("."))
    return dotted == "_core" or path.is_dir() or path.with_suffix(".py").is_file()


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def walk(nodes: list[ast.stmt], at_import_time: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield all statements and whether they run when the module is imported."""
    for node in nodes:
        yield node, at_import_time
        inside = at_import_time and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for field in ("body", "orelse", "finalbody"):
            typing_only = field == "body" and is_type_checking(node)
            yield from walk(getattr(node, field, []), inside and not typing_only)
        for branch in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            yield from walk(branch.body, inside)


def imports_of(text: str, path: Path, root: Path = PACKAGE) -> Iterator[Import]:
    """Yield the imports of the module at ``path`` (below ``root``) with the source ``text``."""
    package = ["ranksvm", *path.relative_to(root).parent.parts]
    for node, at_import_time in walk(ast.parse(text).body, at_import_time=True):
        if isinstance(node, ast.Import):
            names = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [(module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in names:
            top, _, inner = module.partition(".")
            if top != "ranksvm":
                yield Import(node.lineno, module, False, at_import_time)
                continue
            # In `from ranksvm.solvers import x`, x is a module of its own or a name of solvers.
            longer = f"{inner}.{name}".lstrip(".")
            if name is not None and is_module(longer, root):
                inner = longer
            yield Import(node.lineno, inner or "__init__", True, at_import_time)


def component(path: Path, root: Path = PACKAGE) -> str:
    """Return the row of the table that a file belongs to."""
    return path.relative_to(root).with_suffix("").parts[0]


def is_helper(name: str) -> bool:
    return name.startswith("_") and name not in {"_core", "__init__", "__main__"}


def allowed_imports(name: str) -> frozenset[str]:
    if is_helper(name):
        return frozenset({"_core"})
    return ALLOWED[name]


def is_allowed(source: str, target: str) -> bool:
    allowed = allowed_imports(source)
    top = target.partition(".")[0]
    if allowed == ANYTHING or top == source:
        return True
    if is_helper(top):  # helpers stand below all layers
        return True
    return any(target == entry or target.startswith(f"{entry}.") for entry in allowed)


def violations(text: str, path: Path, root: Path = PACKAGE) -> list[str]:
    source = component(path, root)
    allowed = ", ".join(sorted(allowed_imports(source))) or "nothing"
    return [
        f"{path.relative_to(root.parent)}:{found.line}: {source} must not import "
        f"ranksvm.{found.module} (of ranksvm it may import: {allowed}, and itself)"
        for found in imports_of(text, path, root)
        if found.internal and not is_allowed(source, found.module)
    ]


def optional_imports(text: str, path: Path, root: Path = PACKAGE) -> list[str]:
    at_hand = RUN_TIME_DEPENDENCIES | sys.stdlib_module_names
    at_hand |= BEHIND_EXTRAS.get(component(path, root), set())
    return [
        f"{path.relative_to(root.parent)}:{found.line}: imports {found.module}, which is not a "
        "run-time dependency, at module level; import it in the function that needs it"
        for found in imports_of(text, path, root)
        if not found.internal
        and found.at_import_time
        and found.module.partition(".")[0] not in at_hand
    ]


def test_every_module_has_a_row_in_the_table():
    found = {component(path) for path in sources()}
    assert found
    unknown = {name for name in found if not is_helper(name)} - ALLOWED.keys()
    assert not unknown, f"say in ALLOWED what these may import: {sorted(unknown)}"


def test_layers_import_only_what_comes_before_them():
    broken = [
        message
        for path in sources()
        if is_helper(component(path)) or component(path) in ALLOWED
        for message in violations(path.read_text(encoding="utf-8"), path)
    ]
    assert not broken, "\n" + "\n".join(broken)


def test_names_are_imported_from_where_they_are_defined():
    """Modules of the library use no re-exports; demo.py is written like the program of a user."""

    def froms(path: Path) -> list[ast.ImportFrom]:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        return [node for node in found if (node.module or "").startswith("ranksvm.")]

    def file_of(module: str) -> Path:
        path = PACKAGE.joinpath(*module.split(".")[1:])
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    borrowed = {
        path: {alias.name for node in froms(path) for alias in node.names} for path in sources()
    }
    broken = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.module} does not define {alias.name}"
        for path in sources()
        if path.name not in ("__init__.py", "demo.py") or path.parent.name == "cli"
        for node in froms(path)
        for alias in node.names
        if alias.name in borrowed.get(file_of(node.module or ""), ())
    ]
    assert not broken, "\n" + "\n".join(broken)


def test_private_names_stay_in_their_module():
    broken = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {alias.name} is private in {node.module}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ranksvm.")
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert not broken, "\n" + "\n".join(broken)


def test_optional_dependencies_are_imported_where_they_are_used():
    broken = [
        message
        for path in sources()
        if not path.stem.startswith("_") or path.stem == "__init__"
        for message in optional_imports(path.read_text(encoding="utf-8"), path)
    ]
    assert not broken, "\n" + "\n".join(broken)


def test_the_table_has_no_cycle():
    def reachable(name: str, seen: tuple[str, ...] = ()) -> None:
        assert name not in seen, " -> ".join((*seen, name))
        for entry in ALLOWED.get(name, ()):
            if entry:
                reachable(entry.partition(".")[0], (*seen, name))

    for name in ALLOWED:
        reachable(name)


# The checks must see what they are there for: all ways to write an import, in all places.


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "ranksvm"
    for module in ("data/queries", "pairs/order", "solvers/base", "solvers/newton", "_helper"):
        path = root / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


@pytest.mark.parametrize(
    ("file", "statement", "target"),
    [
        ("solvers/newton.py", "import ranksvm.pairs.order", "pairs.order"),
        ("solvers/newton.py", "from ranksvm import pairs", "pairs"),
        ("solvers/newton.py", "from ranksvm.pairs import order", "pairs.order"),
        ("solvers/newton.py", "from ..pairs.order import PairOrder", "pairs.order"),
        ("solvers/newton.py", "from .. import _core", "_core"),
        ("solvers/newton.py", "from ranksvm.pairs import x", "pairs"),
        ("solvers/newton.py", "from ranksvm import LinearRankSVM", "__init__"),
        ("solvers/newton.py", "def f():\n    from ranksvm import pairs", "pairs"),
        ("solvers/newton.py", "if TYPE_CHECKING:\n    from ranksvm import pairs", "pairs"),
        ("solvers/newton.py", "try:\n    x\nexcept E:\n    from ranksvm import pairs", "pairs"),
        ("solvers/newton.py", "match x:\n    case 1:\n        import ranksvm.pairs", "pairs"),
        ("solvers/__init__.py", "from ..pairs import order", "pairs.order"),
        ("objective.py", "from ranksvm.solvers import newton", "solvers.newton"),
        ("objective.py", "from .solvers import Status", "solvers"),
        ("objective.py", "from ranksvm import _core", "_core"),
        ("models.py", "from . import _core", "_core"),
        ("_helper.py", "from ranksvm import data", "data"),
    ],
)
def test_forbidden_imports_are_seen(root, file, statement, target):
    (message,) = violations(statement, root / file, root)
    assert f"ranksvm/{file}:" in message
    assert f"must not import ranksvm.{target} " in message


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("solvers/newton.py", "from .base import Status"),
        ("solvers/newton.py", "from ranksvm.solvers import base"),
        ("solvers/newton.py", "import numpy.linalg"),
        ("objective.py", "from .solvers.base import Status"),
        ("objective.py", "from ranksvm.solvers import base"),
        ("backends/native.py", "from ranksvm import _core, data"),
        ("solvers/newton.py", "from ranksvm._helper import x"),
        ("_helper.py", "from . import _core"),
        ("demo.py", "from ranksvm import LinearRankSVM"),
        ("__init__.py", "from ranksvm.solvers.newton import solve"),
    ],
)
def test_allowed_imports_pass(root, file, statement):
    assert violations(statement, root / file, root) == []


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("import matplotlib.pyplot as plt", 1),
        ("from sksurv.svm import FastSurvivalSVM", 1),
        ("try:\n    import sksurv\nexcept ImportError:\n    sksurv = None", 1),
        ("class A:\n    import matplotlib", 1),
        ("if TYPE_CHECKING:\n    x = 1\nelse:\n    import matplotlib", 1),
        ("if TYPE_CHECKING:\n    import matplotlib", 0),
        ("if typing.TYPE_CHECKING:\n    import matplotlib", 0),
        ("def f():\n    import matplotlib", 0),
        ("import json, numpy as np\nfrom scipy import sparse\nfrom . import data", 0),
    ],
)
def test_optional_imports_are_seen(root, statement, count):
    assert len(optional_imports(statement, root / "metrics.py", root)) == count
