"""All figures and tables of a paper in one run: `python -m nbsal.figures --paper decoding --out figures`.

A run that was stopped, by hand or by `--minutes`, goes on where it was. Without benchmark tables (NBSAL_DATA, or
`--data`) everything is shown on the shipped samples, which takes a few minutes and says so.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from nbsal import data
from nbsal.errors import NbsalError
from nbsal.figures import decoding_exhibits, mask_lrp_exhibits, pages, style
from nbsal.figures.build import BENCHMARK_TASKS, Build, OutOfTime, parse_models
from nbsal.figures.exhibits import Exhibit, Product
from nbsal.figures.pages import Page
from nbsal.render import html

PAPERS = {
    "decoding": ("Decoding Layer Saliency in Language Transformers", decoding_exhibits.EXHIBITS),
    "mask-lrp": ("Better Explain Transformers by Illuminating Important Information", mask_lrp_exhibits.EXHIBITS),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make what is missing; 0 when all is there, 1 when time ran out, 2 when something could not be made."""
    options = _parser().parse_args(arguments)
    if options.data:
        os.environ[data.FOLDER] = str(options.data.resolve())
    title, exhibits = PAPERS[options.paper]
    try:
        edition = Build(
            options.out / options.paper, options.full, options.minutes, parse_models(options.model, options.lm)
        )
    except NbsalError as error:
        print(f"nbsal.figures: {error}", file=sys.stderr)
        return 2
    wanted = [one for one in exhibits if not options.only or one.number.replace(" ", "-").lower() in options.only]
    return run(edition, title, exhibits, wanted)


def run(edition: Build, title: str, exhibits: Sequence[Exhibit], wanted: Sequence[Exhibit]) -> int:
    """Make the wanted exhibits that are not there yet, and an index of all that are."""
    edition.out.mkdir(parents=True, exist_ok=True)
    status = 0
    for at, exhibit in enumerate(wanted, 1):
        print(f"[{at}/{len(wanted)}] {exhibit.number}: {exhibit.title}", flush=True)
        if (stored := _stored(edition, exhibit)) and "error" not in stored:
            print("  is there", flush=True)
            continue
        start = time.monotonic()
        try:
            _keep(edition, exhibit, exhibit.make(edition))
            print(f"  {time.monotonic() - start:.0f} s", flush=True)
        except OutOfTime:
            print("Time is up. Run the same command again to go on.", flush=True)
            status = 1
            break
        except NbsalError as error:
            print(f"  not made: {error}", flush=True)
            _write(edition, exhibit, {"error": str(error)})
            status = 2
    _index(edition, title, exhibits)
    print(f"{edition.out / 'index.html'}", flush=True)
    return status


def _keep(edition: Build, exhibit: Exhibit, made: Product) -> None:
    """Write an exhibit's parts as files, and the section of the index that shows them."""
    body = ""
    for at, (caption, part) in enumerate(made.parts):
        name = f"{_slug(exhibit)}{'' if len(made.parts) == 1 else '-' + 'abcdefghijkl'[at]}"
        body += f"<p>{html.escape(caption)}</p>" if caption else ""
        if isinstance(part, Figure):
            picture = style.png(part)
            (edition.out / f"{name}.png").write_bytes(picture)
            body += pages.picture(picture, f"{exhibit.number}: {exhibit.title}")
        elif isinstance(part, Page):
            part.save(edition.out / f"{name}.html")
            body += f'<p><a href="{name}.html">{html.escape(part.title)}</a></p>'
        else:
            part.data.to_csv(edition.out / f"{name}.csv", float_format="%.6g")  # type: ignore[attr-defined]
            body += part.to_html(table_uuid=name)
    _write(edition, exhibit, {"body": body, "footing": made.footing})


def _index(edition: Build, title: str, exhibits: Sequence[Exhibit]) -> None:
    """One page with everything that is there."""
    sections, numbers = [], []
    for exhibit in exhibits:
        stored = _stored(edition, exhibit)
        if stored is None:
            continue
        numbers.append(exhibit.number)
        body = stored.get("body", f"<p>Not made: {html.escape(stored.get('error', ''))}</p>")
        paper = f" The paper: {exhibit.paper}." if exhibit.paper else ""
        needs = "" if exhibit.needs == "nothing" else f" For {exhibit.needs}."
        rests = f"{stored.get('footing', '')}{paper}{needs}"
        sections.append(pages.section(exhibit.number, exhibit.title, rests, body))
    head = f"<h1>{html.escape(title)}</h1><p>Figures and tables by nbsal. Each says what it rests on.</p>"
    Page(title, head + pages.contents(numbers) + "".join(sections)).save(edition.out / "index.html")


def _write(edition: Build, exhibit: Exhibit, content: dict[str, Any]) -> None:
    path = edition.out / "kept" / f"{_slug(exhibit)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"settings": _settings(edition), **content}), encoding="utf-8")


def _stored(edition: Build, exhibit: Exhibit) -> dict[str, Any] | None:
    """What an earlier run with the same settings wrote."""
    path = edition.out / "kept" / f"{_slug(exhibit)}.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found if found["settings"] == _settings(edition) else None


def _settings(edition: Build) -> list[Any]:
    return [edition.real, edition.full, {table: [one.model, one.lm] for table, one in sorted(edition.models.items())}]


def _slug(exhibit: Exhibit) -> str:
    return re.sub(r"\W+", "-", exhibit.number).lower()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nbsal.figures", description=__doc__)
    parser.add_argument("--paper", choices=PAPERS, required=True)
    parser.add_argument("--out", type=Path, default=Path("nbsal-figures"), metavar="DIR", help="(default %(default)s)")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"benchmark tables, instead of {data.FOLDER}")
    parser.add_argument("--full", action="store_true", help="all texts of every table instead of a sample of them")
    parser.add_argument(
        "--model", action="append", default=[], metavar="[TABLE=]ID",
        help=f"a model of your own for a table ({', '.join(BENCHMARK_TASKS)}); a checkpoint of Table 6 knows its table",
    )  # fmt: skip
    parser.add_argument(
        "--lm",
        action="append",
        default=[],
        metavar="ID",
        help="its pretrained checkpoint; once, or once for each model",
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing new after that time")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="such as figure-2 or table-1")
    return parser


if __name__ == "__main__":
    sys.exit(main())
