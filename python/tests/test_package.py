"""The package as it is installed: version, types, licences, one wheel for all versions of CPython."""

import ast
import inspect
import sysconfig
from importlib import metadata, resources

import pytest

import vmalloc


def stubs():
    text = resources.files("vmalloc").joinpath("__init__.pyi").read_text()
    return ast.parse(text).body


def test_the_version_is_that_of_the_package():
    assert vmalloc.__version__ == metadata.version("vmalloc")


def test_the_package_says_that_it_has_types():
    assert resources.files("vmalloc").joinpath("py.typed").is_file()
    info = metadata.metadata("vmalloc")
    assert info["License-Expression"] == "MIT OR Apache-2.0"
    assert set(info.get_all("License-File")) == {"LICENSE-APACHE", "LICENSE-MIT"}


def test_stubs_have_what_the_package_has():
    types = {node.name: node for node in stubs() if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert set(types) == set(vmalloc.__all__)
    for name, node in types.items():
        if not isinstance(node, ast.ClassDef):
            continue
        known = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
        there = {member for member in vars(getattr(vmalloc, name)) if not member.startswith("_")}
        assert {member for member in known if not member.startswith("_")} == there


def test_parameters_of_stubs_have_the_names_of_the_package():
    for node in stubs():
        if not isinstance(node, ast.ClassDef):
            continue
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                function = vars(getattr(vmalloc, node.name))[member.name]
                if callable(function):
                    stub = [argument.arg for argument in member.args.args]
                    assert stub == list(inspect.signature(function).parameters), member.name


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="it has no limited API")
def test_one_wheel_serves_all_versions():
    wheel = metadata.distribution("vmalloc").read_text("WHEEL")
    assert "Tag: cp311-abi3-" in wheel
