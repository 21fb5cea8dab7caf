"""The code for kernels: what a stranger's Python must find in it, and what it must not."""

import ast
import sys

import pytest

from nbinline_agent.inkernel import KEY, PARTS, SOURCES


def parts() -> list[tuple[str, ast.Module]]:
    return [(name, ast.parse(text)) for name, text in SOURCES]


@pytest.mark.parametrize(("name", "text"), SOURCES, ids=PARTS)
def test_python_3_8_can_read_it(name: str, text: str) -> None:
    ast.parse(text, name, feature_version=(3, 8))


def test_no_two_parts_define_the_same_name() -> None:
    """They share one dictionary: the later would replace the earlier one's."""
    seen: dict[str, str] = {}
    for part, tree in parts():
        for name in defined(tree):
            assert seen.setdefault(name, part) == part, f"{name} in {part} and {seen[name]}"


def defined(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Assign():
                names |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return names


def test_it_needs_nothing_but_the_standard_library() -> None:
    for part, tree in parts():
        for node in ast.walk(tree):
            match node:
                case ast.Import():
                    modules = [alias.name for alias in node.names]
                case ast.ImportFrom(level=0, module=str(module)):
                    modules = [module]
                case _:
                    continue
            for module in modules:
                assert module.split(".")[0] in sys.stdlib_module_names, f"{module} in {part}"


def test_what_it_takes_from_other_parts_is_there() -> None:
    known = {name for _, tree in parts() for name in defined(tree)}
    for part, tree in parts():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                missing = {alias.name for alias in node.names} - known
                assert not missing, f"{part} takes {missing}"


def test_the_key_names_this_very_code() -> None:
    assert KEY.startswith("nbinline_")
    assert len(KEY) == len("nbinline_") + 12
