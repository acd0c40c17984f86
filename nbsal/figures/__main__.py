"""Draw all figures and tables of a paper: `python -m nbsal.figures --paper decoding --out figures`.

Run the same command again to resume a run that was stopped by hand or by `--minutes`. Without benchmark tables
(NBSAL_DATA, or `--data`) everything is computed on the bundled samples; this takes a few minutes, and every figure is
marked accordingly.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from matplotlib.figure import Figure

from nbsal.evaluation import data
from nbsal.explain.explained import versions
from nbsal.figures import decoding_exhibits, mask_lrp_exhibits, pages, style
from nbsal.figures.arguments import check_folders, parse_models, parse_texts
from nbsal.figures.benchmark_tasks import BENCHMARK_TASKS
from nbsal.figures.build import Build, OutOfTime
from nbsal.figures.exhibits import Exhibit, Product
from nbsal.figures.pages import Page
from nbsal.render import html
from nbsal.support.errors import NbsalError, UnknownName

PAPERS = {
    "decoding": ("Decoding Layer Saliency in Language Transformers", decoding_exhibits.EXHIBITS),
    "mask-lrp": ("Better Explain Transformers by Illuminating Important Information", mask_lrp_exhibits.EXHIBITS),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return 0 if everything is finished, 1 if time ran out, and 2 after an error."""
    options = _parser().parse_args(arguments)
    title, exhibits = PAPERS[options.paper]
    tables = options.data or (Path(os.environ[data.FOLDER]) if os.environ.get(data.FOLDER) else None)
    try:
        check_folders(options.out, tables, options.minutes)
        names = [_slug(exhibit) for exhibit in exhibits]
        for name in options.only:
            if name not in names:
                raise UnknownName("--only", name, names)
        models = parse_models(options.model, options.lm, options.labels)
        texts = parse_texts(options.texts)
        build = Build(options.out / options.paper, options.full, options.minutes, models, texts)
    except NbsalError as error:
        print(f"nbsal.figures: {error}", file=sys.stderr)
        return 2
    if options.data:
        os.environ[data.FOLDER] = str(options.data.resolve())
    selected = [exhibit for exhibit in exhibits if not options.only or _slug(exhibit) in options.only]
    return run(build, title, exhibits, selected)


def run(build: Build, title: str, exhibits: Sequence[Exhibit], selected: Sequence[Exhibit]) -> int:
    """Draw the selected exhibits that are not finished yet, and write an index of all finished ones."""
    build.out.mkdir(parents=True, exist_ok=True)
    status = 0
    for number, exhibit in enumerate(selected, 1):
        print(f"[{number}/{len(selected)}] {exhibit.number}: {exhibit.title}", flush=True)
        if (stored := _load(build, exhibit)) and "error" not in stored:
            print("  finished in an earlier run: skipped", flush=True)
            continue
        start = time.monotonic()
        try:
            _write_parts(build, exhibit, exhibit.make(build))
            print(f"  {time.monotonic() - start:.0f} s", flush=True)
        except OutOfTime:
            print("  not enough time: stopped. Run the same command again to resume.", flush=True)
            status = 1
            break
        except NbsalError as error:
            print(f"  failed: {error}", flush=True)
            _store(build, exhibit, {"error": str(error)})
            status = 2
    _write_index(build, title, exhibits)
    print(f"{build.out / 'index.html'}", flush=True)
    return status


def _write_parts(build: Build, exhibit: Exhibit, product: Product) -> None:
    """Write the parts of an exhibit to files, and store its section of the index."""
    body = ""
    for letter, (caption, part) in zip(ascii_lowercase, product.parts, strict=False):
        name = _slug(exhibit) if len(product.parts) == 1 else f"{_slug(exhibit)}-{letter}"
        body += f"<p>{html.escape(caption)}</p>" if caption else ""
        if isinstance(part, Figure):
            png = style.png_bytes(part)
            (build.out / f"{name}.png").write_bytes(png)
            body += pages.picture(png, f"{exhibit.number}: {exhibit.title}")
        elif isinstance(part, Page):
            part.save(build.out / f"{name}.html")
            body += f'<p><a href="{name}.html">{html.escape(part.title)}</a></p>'
        else:
            part.data.to_csv(build.out / f"{name}.csv", float_format="%.6g")  # type: ignore[attr-defined]
            body += part.to_html(table_uuid=name)
    _store(build, exhibit, {"body": body, "source_note": product.source_note, "versions": versions()})


def _write_index(build: Build, title: str, exhibits: Sequence[Exhibit]) -> None:
    sections, numbers, used = [], [], set()
    for exhibit in exhibits:
        stored = _load(build, exhibit)
        if stored is None:
            continue
        numbers.append(exhibit.number)
        used.add(", ".join(f"{name} {number}" for name, number in stored.get("versions", {}).items()))
        body = stored.get("body", f"<p>Failed: {html.escape(stored.get('error', ''))}</p>")
        notes = [
            stored.get("source_note", ""),
            f"In the paper: {exhibit.paper}." if exhibit.paper else "",
            f"To reproduce the paper: {exhibit.needs}." if exhibit.needs else "",
        ]
        note = " ".join(part for part in notes if part)
        sections.append(pages.section(exhibit.number, exhibit.title, note, body))
    head = f"<h1>{html.escape(title)}</h1>{_provenance(build, sorted(used - {''}))}"
    Page(title, head + pages.contents(numbers) + "".join(sections)).save(build.out / "index.html")


def _provenance(build: Build, used: Sequence[str]) -> str:
    """Say which program, versions and tables all exhibits come from; each exhibit names its models and texts."""
    folder = Path(os.environ.get(data.FOLDER) or "nowhere")
    counts = {task.title: build.count(table) for table, task in BENCHMARK_TASKS.items() if (folder / table).is_dir()}
    available = ", ".join(f"{title} ({count:,} texts)" for title, count in counts.items())
    size = "all texts" if build.full else "random samples (seed 0)"
    source = f"{size} of the available benchmark tables, {available}" if available else "the bundled samples"
    note = f"Drawn by python -m nbsal.figures on {source}. Each exhibit names its models and its number of texts."
    return f"<p>{html.escape(' '.join([note, *(f'Computed with {line}.' for line in used)]))}</p>"


def _store(build: Build, exhibit: Exhibit, content: dict[str, Any]) -> None:
    path = _cache_path(build, exhibit)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"settings": _settings(build), **content}), encoding="utf-8")


def _load(build: Build, exhibit: Exhibit) -> dict[str, Any] | None:
    """Return what an earlier run with the same settings stored."""
    path = _cache_path(build, exhibit)
    if not path.exists():
        return None
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return stored if stored["settings"] == _settings(build) else None


def _cache_path(build: Build, exhibit: Exhibit) -> Path:
    return build.out / "kept" / f"{_slug(exhibit)}.json"


def _settings(build: Build) -> list[Any]:
    """Return everything that the results of a run depend on."""
    models = {table: [astuple(named) for named in many] for table, many in sorted(build.models.items())}
    settings: list[Any] = json.loads(json.dumps([build.has_benchmarks, build.full, models, build.texts]))
    return settings  # as they are read again


def _slug(exhibit: Exhibit) -> str:
    return re.sub(r"\W+", "-", exhibit.number).lower()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nbsal.figures", description=__doc__)
    parser.add_argument("--paper", choices=PAPERS, required=True, help="the paper whose figures and tables to draw")
    parser.add_argument("--out", type=Path, default=Path("nbsal-figures"), metavar="DIR", help="(default %(default)s)")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"benchmark tables, instead of {data.FOLDER}")
    parser.add_argument("--full", action="store_true", help="use all texts of every table instead of a sample")
    parser.add_argument(
        "--texts",
        action="append",
        default=[],
        metavar="TABLE=N",
        help="use at most N texts of a table; repeat it for several",
    )
    parser.add_argument(
        "--model", action="append", default=[], metavar="[TABLE=]ID",
        help=f"your own model for a table ({', '.join(BENCHMARK_TASKS)}); repeat it for several models, also of one "
        "table. TABLE may be omitted for the checkpoints of Table 6 of Mask-LRP",
    )  # fmt: skip
    parser.add_argument(
        "--lm",
        action="append",
        default=[],
        metavar="ID",
        help="pretrained checkpoint whose LM head decodes the model; once for all models, or once per model",
    )
    parser.add_argument(
        "--labels",
        action="append",
        default=[],
        metavar="TABLE=CLASS,CLASS",
        help="the classes of your model in the order of its outputs, where it does not name them",
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="start no new figure after this many minutes"
    )
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="draw only these, e.g. figure-2 table-1")
    return parser


if __name__ == "__main__":
    sys.exit(main())
