"""The built front end: small, rebuilt from its sources to the byte, harmless, and whole in the wheel."""

import gzip
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nbsal.render import colours
from nbsal.widgets import View
from nbsal.widgets.page import html_export

ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "nbsal" / "frontend"
SOURCES = sorted(FRONTEND.glob("src/**/*.*"))
BUILT = sorted(html_export.STATIC.iterdir())
VIEWS = sorted(path.stem for path in FRONTEND.glob("src/views/*.ts"))


def test_views_are_small():
    limits = dict.fromkeys(VIEWS, 27) | {
        "workbench": 34,
        "answers": 29,
        "heads": 28,
    }  # KB of script and style, compressed
    content = {
        name: b"".join((html_export.STATIC / f"{name}.{kind}").read_bytes() for kind in ("js", "css")) for name in VIEWS
    }
    sizes = {name: len(gzip.compress(data)) / 1024 for name, data in content.items()}
    assert not {name: size for name, size in sizes.items() if size > limits[name]}


def test_every_view_has_its_assets():
    assert {path.name for path in BUILT} == {f"{name}.{kind}" for name in VIEWS for kind in ("js", "css")} | {
        "offline.js",
        "live.js",
    }
    assert len(gzip.compress((html_export.STATIC / "live.js").read_bytes())) < 23_000
    members = [member for member in vars(sys.modules["nbsal.widgets"]).values() if isinstance(member, type)]
    classes = {member.__name__.lower() for member in members if issubclass(member, View)}
    assert set(VIEWS) == classes - {View.__name__.lower()}


@pytest.mark.parametrize("name", VIEWS)
def test_a_page_contains_its_view_as_a_script(name):
    """A policy that allows inline scripts alone forbids to import the text of a module."""
    module = html_export.asset(f"{name}.js")
    shown = html_export.shown(module, "{}")
    assert shown.startswith(module[:1000]) and re.search(r"nbsal\.show\([\w$]+, \{\}\);$", shown)
    assert "export{" not in shown and html_export.literal(module) not in shown


def test_the_assets_are_what_the_sources_build(tmp_path):
    if shutil.which("node") is None or not (FRONTEND / "node_modules" / "esbuild").is_dir():
        pytest.skip("the front end's tools are not installed (npm ci in nbsal/frontend)")
    subprocess.run(["node", "build.js", str(tmp_path)], cwd=FRONTEND, check=True)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert built == {path.name: path.read_bytes() for path in BUILT}, "run `npm run build` in nbsal/frontend"


def test_the_page_marks_the_same_scores_as_python():
    source = (FRONTEND / "src" / "text" / "colour.ts").read_text()
    faint = float(re.search(r"^export const FAINT = ([\d.]+);", source, re.MULTILINE)[1])
    assert faint == pytest.approx(colours.FAINT / colours.STRONGEST)


SVG = "http://www.w3.org/2000/svg"  # a name that browsers know, not an address


BANNED = ("innerHTML", "outerHTML", "insertAdjacent", "document.querySelector", "eval(", "fetch(", "http")
LOADS = "fetch("  # the model of a live page, from beside it
THEMES = (
    r'(?:\[data-jp-theme-light="(?:true|false)"\]|\.vscode-(?:light|dark)|:host-context\(body\.(?:light|dark)\)'
    r'|:where\(html, body\):where\(\.(?:light|dark), \[data-theme="(?:light|dark)"\]\)) \.nbsal'
)


def faults(path):
    """What is wrong with a source: it is long, untyped, parses markup, or styles more than the views."""
    source = path.read_text()
    if source.count("\n") >= 400:
        yield "it has 400 lines or more"
    if path.suffix == ".ts":
        if not re.match(r"// (?!\w+: )", source):
            yield "the first line does not say what the file does"
        if re.search(r"@ts-|[:<] ?any\b|\bas any\b", source):
            yield "types are not checked"
        allowed = LOADS if path.name == "download.ts" else ""
        yield from (banned for banned in BANNED if banned in source.replace(SVG, "") and banned != allowed)
    else:
        rules = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
        yield from re.findall(rf"^(?!\.nbsal|{THEMES}|@|}}|\s)\S.*", rules, re.MULTILINE)


def test_sources_are_short_typed_and_parse_no_markup():
    assert len(SOURCES) > 50 and not {path.name: wrong for path in SOURCES if (wrong := list(faults(path)))}


def test_the_wheel_holds_the_assets_and_no_sources(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT, check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size <= 18_200_000
    names = zipfile.ZipFile(wheel).namelist()
    assert {Path(name).name for name in names if name.startswith("nbsal/widgets/static/")} == {p.name for p in BUILT}
    assert not [name for name in names if re.search("frontend|node_modules", name)]
    notebooks = {path.name for path in (ROOT / "notebooks").glob("[0-9]*") if path.suffix in (".ipynb", ".py")}
    assert {Path(name).name for name in names if name.startswith("nbsal/notebooks/")} == notebooks
    scripts = [name for name in names if name.endswith((".js", ".css", ".ts", ".mjs"))]
    assert all(name.startswith("nbsal/widgets/static/") for name in scripts)
