"""How many small changes of the code its tests notice: `python -m tests.mutants [--most 60] [FILE ...]`.

A change is one operator, comparison, condition, number or truth value of a file. Each is made in a process of its own,
which runs the file's tests until one fails. Printed are the shares that were noticed, and the changes that were not.
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

# What must notice a change of which file.
CHECKED = {
    "nbsal/lrp/rules.py": ["tests/lrp/test_rules.py", "tests/lrp", "tests/test_golden.py"],
    "nbsal/methods/decoding.py": ["tests/methods/test_decoding.py", "tests/test_golden.py"],
    "nbsal/evaluation/curves.py": ["tests/evaluation/test_games.py"],
}
PATIENCE = 240  # seconds; a change that runs for ever counts as noticed
# Each with what it becomes; the way back is the other entry.
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
TURNED = dict(PAIRS) | {new: old for old, new in PAIRS} | {ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult}


def mutants(source: str) -> Iterator[tuple[str, ast.Module]]:
    """Every change of a file, in words, and the file with it."""
    tree = ast.parse(source)
    idle = _idle(tree)
    for place, node in enumerate(ast.walk(tree)):
        if place in idle:
            continue
        changed = copy.deepcopy(tree)
        twin = list(ast.walk(changed))[place]
        before = ast.unparse(node)
        if _turn(twin):
            yield f"line {node.lineno}: {before} -> {ast.unparse(twin)}", ast.fix_missing_locations(changed)


def _turn(node: ast.AST) -> bool:
    """Change this node alone; says whether there was anything to change."""
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in TURNED:
            node.op = TURNED[type(op)]()
        case ast.Compare(ops=[op, *_]) if type(op) in TURNED:
            node.ops[0] = TURNED[type(op)]()
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


def _idle(tree: ast.Module) -> set[int]:
    """Nodes whose change nobody need notice: annotations, decorators, messages of errors, `strict=`."""
    asleep: set[int] = set()
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")] + getattr(node, "decorator_list", [])
        if isinstance(node, ast.Raise):
            parts.append(node.exc)
        if isinstance(node, ast.keyword) and node.arg == "strict":
            parts.append(node.value)
        asleep |= {id(inner) for part in parts if part is not None for inner in ast.walk(part)}
    return {place for place, node in enumerate(ast.walk(tree)) if id(node) in asleep}


class Changed(SourceFileLoader):
    """Loads a module from a tree in the place of its file."""

    tree: ast.Module

    def get_code(self, fullname: str):
        return compile(self.tree, self.path, "exec")

    def find_spec(self, fullname, path=None, target=None):
        return spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None


def noticed(file: Path, tree: ast.Module) -> bool:
    """Whether the tests of a file fail with that tree in its place."""
    process = os.fork()
    if not process:
        _run(file, tree)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.05)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def _run(file: Path, tree: ast.Module) -> None:
    """The tests in this process, which ends with them."""
    import pytest

    code = 1
    try:
        loader = Changed(".".join(file.with_suffix("").parts), str(file.resolve()))
        loader.tree = tree
        sys.meta_path.insert(0, loader)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *CHECKED[file.as_posix()]])
    finally:
        os._exit(code)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    options.add_argument("files", nargs="*", default=list(CHECKED), choices=[[], *CHECKED], metavar="FILE")
    options.add_argument("--most", type=int, default=60, help="a sample of that many changes a file")
    given = options.parse_args()
    for module in ("torch", "transformers", "numpy", "pandas", "pytest"):  # once for all processes
        importlib.import_module(module)
    for name in given.files or CHECKED:
        every = list(mutants(Path(name).read_text(encoding="utf-8")))
        some = random.Random(0).sample(every, min(given.most, len(every)))
        if noticed(Path(name), ast.parse(Path(name).read_text(encoding="utf-8"))):
            raise SystemExit(f"The tests of {name} fail without any change.")
        missed = [words for words, tree in some if not noticed(Path(name), tree)]
        print(f"{name}: {len(some) - len(missed)} of {len(some)} changes noticed ({len(every)} are possible)")
        print(*(f"  not noticed: {words}" for words in missed), sep="\n", flush=True)


if __name__ == "__main__":
    main()
