"""The command line: `nbsal explain | corpus | methods | licences | lab | doctor`."""

import argparse
import importlib.util
import io
import json
import os
import platform
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import nbsal
from nbsal import licences
from nbsal.errors import InputError, MissingExtra, NbsalError, WeightsError

CORE = ("torch", "transformers", "anywidget", "ipywidgets", "matplotlib", "wordcloud", "pandas", "numpy", "captum")
OPTIONAL = {
    "jupyterlab": ("nbsal lab", "lab"),
    "datasets": ("benchmark tables from the hub", "hub"),
    "spacy": ("parses from spaCy pipelines", "syntax"),
    "pyarrow": ("whole corpora as Parquet", "scale"),
    "distributed": ("corpora on a Dask cluster", "scale"),
}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; what a user got wrong is a sentence and exit status 2."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for consoles that know few characters
    try:
        status = int(options.run(options))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `head` and its like have had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except NbsalError as error:
        print(f"nbsal: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"nbsal: {error.filename or ''} {error.strerror or error}".strip(), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nbsal", description="Why a transformer decided what it decided about a text."
    )
    parser.add_argument("--version", action="version", version=f"nbsal {nbsal.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    explain = commands.add_parser("explain", help="explain one text")
    explain.set_defaults(run=_explain)
    explain.add_argument("text", metavar="TEXT")
    explain.add_argument("--pair", metavar="T2", help="the second text of a pair (hypothesis, context)")
    explain.add_argument(
        "--model", default="demo/reviews", help="embedded name, hub id or folder (default %(default)s)"
    )
    explain.add_argument("--lm", help='pretrained checkpoint whose LM head decodes, or "tied"')
    explain.add_argument("--method", default="decoded-gradcam", help="see `nbsal methods` (default %(default)s)")
    explain.add_argument("--layer", type=int, help="hidden layer (default: the model's)")
    explain.add_argument("--target", help="label, or token to come next (default: what the model predicts)")
    explain.add_argument("--html", type=Path, metavar="F", help="write the highlighted text as a page")
    explain.add_argument("--json", action="store_true", help="print tokens and scores as JSON")
    _corpus_parser(commands.add_parser("corpus", help="explain every text of a file into a folder of Parquet"))
    commands.add_parser("licences", help="every package that nbsal brings in, and its licence").set_defaults(
        run=_licences
    )
    commands.add_parser("methods", help="list every method").set_defaults(run=_methods)
    lab = commands.add_parser("lab", help="open JupyterLab on the tutorial notebooks")
    lab.set_defaults(run=_lab)
    lab.add_argument("folder", nargs="?", type=Path, default=Path("nbsal-notebooks"), metavar="DIR")
    commands.add_parser("doctor", help="what is installed, what is missing and how to get it").set_defaults(run=_doctor)
    return parser


def _explain(options: argparse.Namespace) -> int:
    subject = nbsal.load(options.model, lm=options.lm)
    settings = {} if options.layer is None else {"layer": options.layer}
    explain = nbsal.Explainer(subject, options.method, **settings)
    text = options.text if options.pair is None else (options.text, options.pair)
    found = explain(text, target=_target(options.target, subject))
    if options.html:
        options.html.write_text(found.to_html(page=True), encoding="utf-8")
    if options.json:
        frame = found.to_frame()
        tokens = json.loads(frame.to_json(orient="records"))
        shown = {"prediction": found.prediction, "target": found.target, "provenance": found.provenance}
        print(json.dumps(shown | {"tokens": tokens}, ensure_ascii=False, indent=1))
    else:
        colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(found.to_terminal(colours))
        for note in found.notes():
            print(note)
        words = found.by_word().nlargest(5, "score")
        print(
            "most important: " + ", ".join(f"{w} {s:+.3g}" for w, s in zip(words["word"], words["score"], strict=True))
        )
    return 0


def _corpus_parser(corpus: argparse.ArgumentParser) -> None:
    corpus.set_defaults(run=_corpus)
    corpus.add_argument("source", metavar="SOURCE", help="a .parquet, .csv or .jsonl file")
    corpus.add_argument("out", metavar="OUT", help="a folder; a run that was stopped goes on when it is called again")
    corpus.add_argument("--text", default="text", metavar="COLUMN", help="column of texts (default %(default)s)")
    corpus.add_argument("--pair", metavar="COLUMN", help="column of the second texts of pairs")
    corpus.add_argument("--model", default="demo/reviews", help="as in `nbsal explain` (default %(default)s)")
    corpus.add_argument("--lm", help="as in `nbsal explain`")
    corpus.add_argument("--method", action="append", help="may be given several times (default decoded-gradcam)")
    corpus.add_argument("--layer", type=int, help="hidden layer of every method (default: the model's)")
    corpus.add_argument("--target", help="one label for all texts (default: what the model predicts)")
    corpus.add_argument("--shard-rows", type=int, default=1000, metavar="N", help="texts a file (default %(default)s)")
    corpus.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster (default: this process alone)")


def _corpus(options: argparse.Namespace) -> int:
    subject = nbsal.load(options.model, lm=options.lm)
    settings = {} if options.layer is None else {"layer": options.layer}
    explainers = [nbsal.Explainer(subject, name, **settings) for name in options.method or ["decoded-gradcam"]]
    text = options.text if options.pair is None else (options.text, options.pair)
    asked = {"target": _target(options.target, subject), "shard_rows": options.shard_rows}
    try:
        with _client(options.scheduler) as client:
            found = nbsal.corpus.explain(explainers, options.source, options.out, text, client, **asked)
    except KeyboardInterrupt:
        print(f"What is done is kept in {options.out}: the same command goes on from there.", file=sys.stderr)
        raise
    print(f"{options.out}: {found.rows:,} texts, {found.tokens:,} tokens, {found.size:,} bytes")
    print(f"{found.failed:,} could not be explained, {found.cut:,} were cut to the model's length")
    if found.failed:
        first = found.failures().iloc[0]
        print(f"the first of them is row {first['text_id']}: {first['error']}")
    return 0


def _client(address: str | None) -> AbstractContextManager[Any]:
    """A client of the cluster at that address; without one, none."""
    if address is None:
        return nullcontext()
    try:
        from distributed import Client
        from distributed.comm import get_address_host_port
    except ImportError:
        raise MissingExtra("Explaining on a cluster", "scale") from None
    try:
        get_address_host_port(address)
    except ValueError as error:
        raise InputError(f"--scheduler is an address such as tcp://127.0.0.1:8786, not {address!r}: {error}.") from None
    client: AbstractContextManager[Any] = Client(address, timeout=10)
    return client


def _target(given: str | None, subject: nbsal.Subject) -> Any:
    """A label as typed; spans, token classes and ids come as numbers with commas."""
    if given is None or given in subject.labels:
        return given
    parts = [int(part) if part.strip().isdecimal() and part.isascii() else part for part in given.split(",")]
    if subject.task == "next-token":
        return given if not isinstance(parts[0], int) else tuple(parts) if len(parts) > 1 else parts[0]
    return tuple(parts) if len(parts) > 1 else parts[0]


def _licences(options: argparse.Namespace) -> int:
    for package in licences.brought_in():
        print(f"{package.name:32} {package.version:16} {package.licence}")
    return 0


def _methods(options: argparse.Namespace) -> int:
    from nbsal.methods import catalogue

    table = catalogue.table()
    for name, row in table.iterrows():
        print(f"{name:34} {row['family']:13} {row['paper']}")
        print(f"    forwards: {row['cost']}; promises: {row['promise']}")
        print(f"    reads {row['needs'] or 'the output'}; settings {row['settings']}")
    return 0


def notebooks() -> Path:
    """Where the tutorial notebooks lie: in the wheel beside the code, in a checkout beside the package."""
    here = Path(__file__).parent
    return next(folder for folder in (here / "notebooks", here.parent / "notebooks") if folder.is_dir())


def copy_notebooks(folder: Path) -> Iterator[Path]:
    """Copy the notebooks that are not there yet: a reader's own changes are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(notebooks().glob("*.ipynb")):
        copy = folder / source.name
        if not copy.exists():
            shutil.copyfile(source, copy)
        yield copy


def _lab(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("jupyterlab") is None:
        raise MissingExtra("nbsal lab", "lab")
    first = next(iter(sorted(copy_notebooks(options.folder))))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_urlsafe(16)
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={options.folder.resolve()}"]
    command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", f"--IdentityProvider.token={token}"]
    command += [f"--LabApp.default_url=/lab/tree/{first.name}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    if not _has_display():
        command.append("--no-browser")
    print(f"The notebooks are in {options.folder}. JupyterLab answers at", flush=True)
    print(f"    http://127.0.0.1:{port}/lab/tree/{first.name}?token={token}", flush=True)
    return subprocess.call(command)


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or any(os.environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY"))


def _doctor(options: argparse.Namespace) -> int:
    print(f"nbsal {nbsal.__version__}, Python {platform.python_version()}, {platform.platform()}")
    sound = True
    for name in CORE:
        found = _version(name)
        sound &= found is not None
        print(f"  {name:14} {found or 'MISSING: pip install --force-reinstall nbsal'}")
    sound &= _doctor_weights()
    browser = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    print(f"  {'Chromium':14} {browser or 'none: only the browser tests need it (apt-get install chromium)'}")
    for name, (use, extra) in OPTIONAL.items():
        print(f"  {name:14} {_version(name) or f'none: {use} needs it (pip install nbsal[{extra}])'}")
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "none, the CPU serves"
    print(f"  {'GPU':14} {device}")
    print("Everything that is needed is there." if sound else "Something that is needed is missing: see above.")
    return 0 if sound else 1


def _doctor_weights() -> bool:
    from nbsal import samples

    try:
        path = samples.base.find("model.safetensors")
        samples.base.find("vocab.txt")
    except WeightsError as error:
        print(f"  {'base weights':14} {error}")
        return False
    print(f"  {'base weights':14} {path}, SHA-256 as published ({samples.base.digest(path)[:12]}...)")
    return True


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
