"""Mutation testing of a few files: `python -m tests.mutants [--most 60] [FILE ...]`.

A mutant changes one operator, comparison, condition, number or truth value of a file. The file's tests run with each
mutant in a process of its own, until one of them fails. Printed are the share of mutants that were killed, and the
mutants that survived.
"""

import argparse
import ast
import copy
import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path

# The tests that must fail for a mutant of a file.
TESTS = {
    "nbsal/lrp/rules.py": ["tests/lrp/test_rules.py", "tests/lrp", "tests/test_golden.py"],
    "nbsal/methods/decoding.py": [
        "tests/methods/test_decoding.py",
        "tests/methods/test_catalogue.py",
        "tests/test_golden.py",
    ],
    "nbsal/evaluation/_games.py": ["tests/evaluation/test_games.py", "tests/evaluation/test_cache.py"],
}
TIMEOUT = 240  # seconds; a mutant that does not terminate counts as killed
# Operators that replace each other.
PAIRS = [
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
    (ast.And, ast.Or),
]
REPLACEMENTS = dict(PAIRS) | {new: old for old, new in PAIRS} | {ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult}


def mutants(source: str) -> Iterator[tuple[str, ast.Module]]:
    """All mutants of a file: a description of the change, and the changed syntax tree."""
    tree = ast.parse(source)
    ignored = _ignored_nodes(tree)
    for index, node in enumerate(ast.walk(tree)):
        if index in ignored:
            continue
        changed = copy.deepcopy(tree)
        changed_node = list(ast.walk(changed))[index]
        before = ast.unparse(node)
        if _mutate(changed_node):
            yield f"line {node.lineno}: {before} -> {ast.unparse(changed_node)}", ast.fix_missing_locations(changed)


def _mutate(node: ast.AST) -> bool:
    """Change this node only; return whether it was changed."""
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in REPLACEMENTS:
            node.op = REPLACEMENTS[type(op)]()
        case ast.Compare(ops=[op, *_]) if type(op) in REPLACEMENTS:
            node.ops[0] = REPLACEMENTS[type(op)]()
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
        case ast.UnaryOp(op=ast.USub()):
            node.op = ast.UAdd()
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() | float() as value):
            node.value = value + 1
        case _:
            return False
    return True


def _ignored_nodes(tree: ast.Module) -> set[int]:
    """Indices of nodes that tests need not check: annotations, decorators, error messages, `strict=`."""
    ids: set[int] = set()
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")] + getattr(node, "decorator_list", [])
        if isinstance(node, ast.Raise):
            parts.append(node.exc)
        if isinstance(node, ast.keyword) and node.arg == "strict":
            parts.append(node.value)
        ids |= {id(inner) for part in parts if part is not None for inner in ast.walk(part)}
    return {index for index, node in enumerate(ast.walk(tree)) if id(node) in ids}


class TreeLoader(SourceFileLoader):
    """Loads a module from a syntax tree instead of its file."""

    tree: ast.Module

    def get_code(self, fullname: str):
        return compile(self.tree, self.path, "exec")

    def find_spec(self, fullname, path=None, target=None):
        return spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None


def is_killed(file: Path, tree: ast.Module) -> bool:
    """Whether the tests of a file fail if it is replaced by this syntax tree."""
    process = os.fork()
    if not process:
        _run_tests(file, tree)
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.05)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def _run_tests(file: Path, tree: ast.Module) -> None:
    """Run the tests in this process, then exit."""
    import pytest

    code = 1
    try:
        loader = TreeLoader(".".join(file.with_suffix("").parts), str(file.resolve()))
        loader.tree = tree
        sys.meta_path.insert(0, loader)
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-n", "0", *TESTS[file.as_posix()]])
    finally:
        os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", default=list(TESTS), choices=[[], *TESTS], metavar="FILE")
    parser.add_argument("--most", type=int, default=60, help="number of mutants per file, sampled at random")
    options = parser.parse_args()
    for module in ("torch", "transformers", "numpy", "pandas", "pytest"):  # imported once for all processes
        importlib.import_module(module)
    for name in options.files or TESTS:
        all_mutants = list(mutants(Path(name).read_text(encoding="utf-8")))
        sample = random.Random(0).sample(all_mutants, min(options.most, len(all_mutants)))
        if is_killed(Path(name), ast.parse(Path(name).read_text(encoding="utf-8"))):
            raise SystemExit(f"The tests of {name} fail without a mutant.")
        survived = [description for description, tree in sample if not is_killed(Path(name), tree)]
        print(
            f"{name}: {len(sample) - len(survived)} of {len(sample)} mutants killed ({len(all_mutants)} are possible)"
        )
        print(*(f"  survived: {description}" for description in survived), sep="\n", flush=True)


if __name__ == "__main__":
    main()
