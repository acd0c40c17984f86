"""What the sources say of themselves, read by AST: classes, signatures, tables, imports by name, lines."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.journeys.coalitions import builds_table, called

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "nbsal"
FRONT_END = PACKAGE / "frontend" / "src"
ENGINE = ("nbsal.ablation",)  # what runs a coalition
BY_NAME = ("import_module", "LazyModule", "LazyClass")  # calls that import what a text names
MOST_PARAMETERS = 6


@dataclass(frozen=True)
class Source:
    """What is counted in a file; its syntax tree takes too much memory to be kept."""

    file: str
    classes: list[str]
    long_signatures: list[str]
    methods: set[str]  # that it registers
    tables: list[set[str]]  # the texts in each constant
    named: set[str]  # what it imports by name
    imports: set[str]
    keeps: bool  # whether it builds a table of coalitions

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def sources() -> list[Source]:
    """Every file of the package."""
    paths = (path for path in sorted(PACKAGE.rglob("*.py")) if "node_modules" not in path.parts)
    return [read(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def read(file: str, text: str) -> Source:
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    constants = [node.value for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
    return Source(
        file,
        [node.name for node in nodes if isinstance(node, ast.ClassDef)],
        [node.name for node in functions if parameters(node) > MOST_PARAMETERS],
        {name for node in nodes if called(node) == "register" for name in texts(node)[:1]},
        [set(texts(value)) for value in constants],
        {text for node in nodes if called(node) in BY_NAME for text in texts(node)},
        {name for node in nodes for name in imported(node)},
        any(map(builds_table, functions)),
    )


def texts(node: ast.AST) -> list[str]:
    """The texts that stand in a node."""
    constants = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return [value for value in constants if isinstance(value, str)]


def parameters(node: ast.FunctionDef) -> int:
    """The number of parameters, without `self`, `*args` and `**kwargs`."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len([each for each in arguments if each.arg not in ("self", "cls")])


def imported(node: ast.AST) -> Iterator[str]:
    """The modules that a node imports, or names in a text; the names that it imports from them may be modules too."""
    if isinstance(node, ast.ImportFrom) and node.module:
        yield from (node.module, *(f"{node.module}.{each.name}" for each in node.names))
    elif isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("nbsal."):
        yield node.value


def classes() -> list[str]:
    """The names of all classes."""
    return [name for source in sources() for name in source.classes]


def repeated(names: list[str]) -> list[str]:
    """The names that stand there more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def long_signatures() -> list[str]:
    """The functions with more than six parameters, as "file:name"."""
    return [f"{source.file}:{name}" for source in sources() for name in source.long_signatures]


def method_tables() -> list[str]:
    """The files with a table of several methods by name: a fact about a method that its class does not state.

    The papers' figures say which methods they compare, which is no fact about them.
    """
    names = {name for source in sources() for name in source.methods}
    others = [source for source in sources() if not source.file.startswith("nbsal/figures/")]
    return [source.file for source in others if any(len(names & table) > 1 for table in source.tables)]


def coalition_tables() -> list[str]:
    """The files that build tables of coalitions and import the engine, directly, through other files or by name.

    Those of the engine are left out, and reference methods, which hide as their authors' programs did.
    """
    engine = {source.module for source in sources() if source.module.startswith(ENGINE)}
    others, reached = [source for source in sources() if source.module not in engine], set[str]()
    while more := {source.module for source in others if source.imports & (engine | reached)} - reached:
        reached |= more
    clients = [source for source in others if not source.file.startswith("nbsal/methods/reference/")]
    return [source.file for source in clients if source.keeps and source.module in reached]


def rooms_reaching_up() -> list[str]:
    """The rooms of which a file imports by name what lies in a room above, where the linter of imports sees nothing."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    height = {name.strip(): -at for at, row in enumerate(layers) for name in row.split(":")}
    rooms = set()
    for source in sources():
        room, named = room_of(source.module), map(room_of, source.named)
        if room in height and any(height.get(name, height[room]) > height[room] for name in named):
            rooms.add(room)
    return sorted(rooms)


def room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def files_of_words() -> list[str]:
    """The files that only word what the page says, NAME-words.ts, without drawing it (`dom.ts`); not of live pages."""
    paths = [path for path in sorted(FRONT_END.rglob("*-words.ts")) if path.parent.name != "live"]
    words = {path.name: path.read_text(encoding="utf-8") for path in paths}
    return [name for name, source in words.items() if '/dom"' not in source]


def lines(folder: Path, *suffixes: str, but: str = "node_modules") -> int:
    """The lines of the files with these suffixes, without those in a folder of that name."""
    paths = (path for path in folder.rglob("*") if path.suffix in suffixes and but not in path.parts)
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)
