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
from nbsal.widgets import View, export

ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "nbsal" / "frontend"
SOURCES = sorted(FRONTEND.glob("src/**/*.*"))
BUILT = sorted(export.STATIC.iterdir())
VIEWS = sorted(path.stem for path in FRONTEND.glob("src/views/*.ts"))
KB = 1024


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_small(name):
    content = b"".join((export.STATIC / f"{name}.{kind}").read_bytes() for kind in ("js", "css"))
    packed = len(gzip.compress(content))
    print(f"{name}: {len(content)} bytes of script and style, {packed} compressed")
    assert packed <= {"workbench": 32, "answers": 27}.get(name, 26) * KB


def test_every_view_has_its_assets():
    assert {path.name for path in BUILT} == {f"{name}.{kind}" for name in VIEWS for kind in ("js", "css")} | {
        "offline.js"
    }
    members = [member for member in vars(sys.modules["nbsal.widgets"]).values() if isinstance(member, type)]
    classes = {member.__name__.lower() for member in members if issubclass(member, View)}
    assert set(VIEWS) == classes - {View.__name__.lower()}


def test_the_assets_are_what_the_sources_build(tmp_path):
    if shutil.which("node") is None or not (FRONTEND / "node_modules" / "esbuild").is_dir():
        pytest.skip("the front end's tools are not installed (npm ci in nbsal/frontend)")
    subprocess.run(["node", "build.js", str(tmp_path)], cwd=FRONTEND, check=True)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert built == {path.name: path.read_bytes() for path in BUILT}, "run `npm run build` in nbsal/frontend"


def test_the_page_marks_the_same_scores_as_python():
    source = (FRONTEND / "src" / "colour.ts").read_text()
    faint = float(re.search(r"^export const FAINT = ([\d.]+);", source, re.MULTILINE)[1])
    assert faint == pytest.approx(colours.FAINT / colours.STRONGEST)


SVG = "http://www.w3.org/2000/svg"  # a name that browsers know, not an address


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_sources_are_short_typed_and_parse_no_markup(path):
    source = path.read_text()
    assert source.count("\n") < 400
    if path.suffix == ".ts":
        assert re.match(r"// (?!\w+: )", source), "the first line says what the file does"
        assert not re.search(r"@ts-|[:<] ?any\b|\bas any\b", source), "types are checked"
        for banned in ("innerHTML", "outerHTML", "insertAdjacent", "document.querySelector", "eval(", "fetch(", "http"):
            assert banned not in source.replace(SVG, "")
    else:
        rules = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
        themes = r'\[data-jp-theme-light="(?:true|false)"\] \.nbsal|\.vscode-(?:light|dark) \.nbsal'
        assert not re.search(rf"^(?!\.nbsal|{themes}|@|}}|\s)\S", rules, re.MULTILINE), "every rule is the views' own"


def test_the_wheel_holds_the_assets_and_no_sources(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT, check=True
    )
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    assert {Path(name).name for name in names if name.startswith("nbsal/widgets/static/")} == {p.name for p in BUILT}
    assert not [name for name in names if re.search("frontend|node_modules|samples/training", name)]
    scripts = [name for name in names if name.endswith((".js", ".css", ".ts", ".mjs"))]
    assert all(name.startswith("nbsal/widgets/static/") for name in scripts)
