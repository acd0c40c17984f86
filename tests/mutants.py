"""Mutation testing: `python -m tests.mutants [--most 120] [--largest 40] [FILE ...]`.

A mutant changes one operator, comparison, condition, number or truth value of a file. A seeded sample of all mutants
of the files is tested, each in a process of its own, with the tests that reach its line, until one of them fails.
Which tests reach a line is read from the data of `pytest --cov --cov-context=test tests nbsal`. Printed are the share
of mutants that were killed for each file, and the mutants that survived. Each outcome goes to standard error at once.
"""

import argparse
import ast
import copy
import importlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData

PACKAGE = Path("nbsal")
TIMEOUT = 300  # seconds; a mutant that makes a test hang counts as killed
TESTS = 60  # that are run for a mutant at most: those that reach fewest lines, which test them most closely
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


class Mutant(NamedTuple):
    """One change of one file."""

    file: Path
    index: int  # of the changed node, in the order of ast.walk
    line: int
    change: str

    def tree(self) -> ast.Module:
        tree = ast.parse(self.file.read_text(encoding="utf-8"))
        _mutate(list(ast.walk(tree))[self.index])
        return ast.fix_missing_locations(tree)


def mutants(file: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    ignored = _ignored_nodes(tree)
    for index, node in enumerate(ast.walk(tree)):
        changed = copy.copy(node)
        if hasattr(node, "ops"):
            changed.ops = list(node.ops)
        if index not in ignored and _mutate(changed):
            before, after = (ast.unparse(part).partition("\n")[0] for part in (node, changed))
            yield Mutant(file, index, node.lineno, f"{before} -> {after}")


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


class LoadFirst:
    """A plugin that puts a loader before pytest's own, which loads the files whose doctests are to run."""

    def __init__(self, loader: TreeLoader):
        self._loader = loader

    def pytest_load_initial_conftests(self):
        sys.meta_path.insert(0, self._loader)


class Reached:
    """Which tests reach which lines."""

    def __init__(self, data: CoverageData, collected: set[str]):
        self._tests = {
            Path(name).resolve(): {
                line: {context.removesuffix("|run") for context in contexts if context.endswith("|run")} & collected
                for line, contexts in data.contexts_by_lineno(name).items()
            }
            for name in data.measured_files()
        }
        self._lines = Counter(test for lines in self._tests.values() for tests in lines.values() for test in tests)

    def by(self, mutant: Mutant) -> list[str]:
        """The tests to run for a mutant; for a line that runs at import, those that reach the file."""
        lines = self._tests.get(mutant.file.resolve(), {})
        tests = lines.get(mutant.line) or set().union(*lines.values())
        return sorted(tests, key=lambda test: (self._lines[test], test))[:TESTS]


def collect() -> set[str]:
    """The tests that run by day; the data may know others, of which pytest would say that it finds none."""
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--collect-only", "-q", "tests", "nbsal"]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return {line for line in lines if "::" in line}


def outcome(mutant: Mutant, tests: list[str]) -> str:
    """What these tests do to this mutant: killed, survived, or timeout."""
    process = os.fork()
    if not process:
        _run_tests(mutant, tests)
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return "killed" if os.waitstatus_to_exitcode(status) else "survived"
        time.sleep(0.05)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return "timeout"


def _run_tests(mutant: Mutant, tests: list[str]) -> None:
    """Run the tests in this process, then exit."""
    import pytest

    code = 1
    try:
        loader = TreeLoader(
            ".".join(mutant.file.with_suffix("").parts).removesuffix(".__init__"), str(mutant.file.resolve())
        )
        loader.tree = mutant.tree()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        # All of these tests run by day; alone, a covering array would choose others.
        options = ["-x", "-q", "-m", "", "-p", "no:cacheprovider", "-p", "no:randomly", "-n", "0"]
        code = pytest.main([*options, *tests], plugins=[LoadFirst(loader)])
    finally:
        os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--largest", type=int, default=40, help="without FILE: this many of the largest files")
    parser.add_argument("--most", type=int, default=120, help="number of mutants, sampled at random")
    parser.add_argument("--coverage", default=".coverage", help="the data that tells which tests reach a line")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    data = CoverageData(options.coverage)
    data.read()
    reached = Reached(data, collect())
    largest = sorted(
        PACKAGE.rglob("*.py"), key=lambda file: (-len(file.read_text(encoding="utf-8").splitlines()), file)
    )
    files = options.files or largest[: options.largest]
    every = [mutant for file in files for mutant in mutants(file)]
    sample = random.Random(0).sample(every, min(options.most, len(every)))
    for module in ("torch", "transformers", "numpy", "pandas", "pytest"):  # imported once for all processes
        importlib.import_module(module)
    outcomes = []
    with ThreadPoolExecutor(options.workers) as pool:
        results = pool.map(lambda mutant: outcome(mutant, reached.by(mutant)), sample)
        for mutant, result in zip(sample, results, strict=True):
            print(f"{mutant.file}:{mutant.line}: {mutant.change}: {result}", file=sys.stderr, flush=True)
            outcomes.append(result)
    count = Counter(outcomes)
    print(
        f"{len(sample) - count['survived']} of {len(sample)} mutants killed, {count['timeout']} of them by the timeout;"
    )
    print(f"{len(every)} are possible in {len(files)} files")
    by_file = defaultdict(list)
    for mutant, result in zip(sample, outcomes, strict=True):
        by_file[mutant.file].append((mutant, result))
    for file, results in sorted(by_file.items()):
        survived = [mutant for mutant, result in results if result == "survived"]
        print(f"{file}: {len(results) - len(survived)} of {len(results)}")
        for mutant in survived:
            print(f"  survived: line {mutant.line}: {mutant.change}")


if __name__ == "__main__":
    main()
