"""The package as it is installed: version, types, licences, one wheel for all versions of CPython."""

import ast
import builtins
import inspect
import pydoc
import sys
import sysconfig
from importlib import metadata, resources

import numpy as np
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
                    stub = [argument.arg for argument in member.args.args + member.args.kwonlyargs]
                    assert stub == list(inspect.signature(function).parameters), member.name


def test_all_names_can_be_imported_beside_other_packages():
    names = {"numpy": np}
    exec("from vmalloc import *", names)
    assert names["numpy"] is np and set(vmalloc.__all__) <= set(names)
    assert not set(vmalloc.__all__) & (set(dir(builtins)) | set(sys.stdlib_module_names) | {"np", "numpy"})


def test_no_parameter_or_member_has_the_name_of_a_builtin():
    for node in stubs():
        for member in ast.walk(node):
            names = [member.name] if isinstance(member, ast.FunctionDef) else []
            names += [member.arg] if isinstance(member, ast.arg) else []
            assert not set(names) & set(dir(builtins)), names


def test_help_is_for_people_who_use_the_package():
    for name in vmalloc.__all__:
        member = getattr(vmalloc, name)
        text = pydoc.plain(pydoc.render_doc(member))
        assert inspect.getdoc(member), name
        for word in ("Rust", "borrow", "interpreter", "frozen", "# Safety", "pyo3", "[`", "SAFETY", "Ellipsis"):
            assert word not in text, (name, word)
        for method, function in vars(member).items() if inspect.isclass(member) else ():
            assert method.startswith("_") or inspect.getdoc(function), (name, method)


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="it has no limited API")
def test_one_wheel_serves_all_versions():
    wheel = metadata.distribution("vmalloc").read_text("WHEEL")
    assert "Tag: cp311-abi3-" in wheel


def test_the_example_of_the_readme_runs():
    # pip has it as the description.
    text = metadata.metadata("vmalloc").get_payload()
    exec(text.split("```python\n")[1].split("```")[0], {})
