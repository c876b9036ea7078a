"""Packages import their names when they are first used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import ranksvm

PACKAGES = ("ranksvm", "ranksvm.data", "ranksvm.learners")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_found(name):
    package = importlib.import_module(name)
    for public in package.__all__:
        assert getattr(package, public) is not None
        assert public in dir(package)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize("name", PACKAGES)
def test_type_checkers_see_the_same_names(name):
    package = importlib.import_module(name)
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = set(package._HOME)
    assert homes - {"__version__"} <= seen
    assert homes <= set(package.__all__)


@pytest.mark.parametrize("name", PACKAGES)
def test_an_import_of_the_package_imports_no_part(name):
    code = f"import sys, {name}\nprint(*[one for one in sys.modules if one.startswith('{name}.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"ranksvm._lazy"}


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert ranksvm.__version__ == version("ranksvm")
