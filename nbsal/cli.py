"""The command line `nbsal`: explain, answer, corpus, audit, citations, methods, arena, lab and doctor."""

import argparse
import gc
import importlib.util
import io
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbsal
from nbsal import doctor
from nbsal.commands import arena, audit, citations, corpus, methods, server
from nbsal.commands.endpoint import add_endpoint, add_server, load_replier
from nbsal.commands.shared import UNITS, add_hops, add_layout, add_max_new_tokens, parse_target, write_page
from nbsal.render import html
from nbsal.support.errors import FileError, InputError, MissingExtra, NbsalError, file_error
from nbsal.support.lazy import pandas
from nbsal.support.validation import file_errors

MOST_SOURCES = 3  # of a kind, documents or messages, that are printed
# Views say at once that a kernel was killed; by default, Jupyter looks for it every three seconds only.
NOTICE_DEATH = "--KernelRestarter.time_to_dead=0.5"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status, which is 2 after an error in the arguments or files."""
    parser = _parser()
    options, unread = parser.parse_known_args(arguments)
    if unread:
        parser.error(f"unrecognized arguments: {' '.join(unread)}. Put a text with spaces in quotes.")
    if "run" not in options:
        parser.print_help()
        return 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for consoles with a limited encoding
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            status = int(options.run(options))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except NbsalError as error:
        print(f"nbsal: {html.visible(str(error))}", file=sys.stderr)
        return 2
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"nbsal: {place}{error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as errors are printed, without the line of code that it is about."""
    print(f"nbsal: {html.visible(str(message))}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nbsal", description="Explain why a transformer decided, or wrote, what it did."
    )
    parser.add_argument("--version", action="version", version=f"nbsal {nbsal.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")

    def command(name: str, purpose: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")

    explain = command("explain", "explain one text")
    explain.set_defaults(run=_explain)
    explain.add_argument("text", metavar="TEXT", help="the text to explain")
    explain.add_argument("--pair", metavar="TEXT", help="second text of a pair, such as the hypothesis or the context")
    explain.add_argument(
        "--model",
        help="name of an embedded model, hub id or folder (default demo/reviews, or demo/reviews-small "
        "without nbsal[demo])",
    )
    explain.add_argument(
        "--lm",
        help="pretrained checkpoint whose LM head decodes hidden layers, or 'tied' to use the model's input embeddings",
    )
    explain.add_argument(
        "--method", help="a name from `nbsal methods` (default attn-lrp, or what else can explain the model)"
    )
    explain.add_argument(
        "--layer", type=int, help="hidden layer, 0 for the embeddings (default: the method's default layer)"
    )
    explain.add_argument("--target", help="label, or next token of a language model (default: the prediction)")
    explain.add_argument("--html", type=Path, metavar="FILE", help="write the highlighted text as an HTML page")
    explain.add_argument("--json", action="store_true", help="print tokens and scores as JSON")
    explain.add_argument("--check", action="store_true", help="measure what hiding the strongest words does")
    explain.add_argument("--plan", action="store_true", help="print what would be run, and run nothing")
    _answer_parser(command("answer", "explain the reply of a language model by its sources"))
    corpus.add_arguments(command("corpus", "explain every text of a file and save the scores as Parquet"))
    audit.add_arguments(command("audit", "find what a classifier relies on, and which words are behind its mistakes"))
    citations.add_arguments(command("citations", "say whether the replies of a file use the documents that they cite"))
    methods.add_arguments(command("methods", "list every method, with those to start with, or describe one"))
    arena.add_arguments(command("arena", "compare methods where it is known what decides"))
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
    check = command("doctor", "check what is installed, or what a server can do")
    check.set_defaults(run=lambda options: server.check(options) if options.endpoint else doctor.check())
    add_server(check)
    return parser


def _explain(options: argparse.Namespace) -> int:
    with _collector_paused():
        subject = nbsal.load(options.model or nbsal.samples.default_classifier(), lm=options.lm)
        settings = {} if options.layer is None else {"layer": options.layer}
        explain = nbsal.Explainer(subject, options.method, **settings)
    text = options.text if options.pair is None else (options.text, options.pair)
    target = parse_target(options.target, subject)
    if options.plan:
        print(*explain.plan(text, target), sep="\n")
        return 0
    saliency = explain(text, target, check=options.check)
    if options.html:
        write_page(options.html, saliency.to_html())
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
    add_layout(answer)
    answer.add_argument("--model", help="as in `nbsal explain` (default demo/notes), or its name on the server")
    add_endpoint(answer)
    answer.add_argument("--reply", help="explain this reply (default: the model writes one)")
    answer.add_argument(
        "--method", help="a name from `nbsal methods` (default occlusion with documents, else attn-lrp)"
    )
    answer.add_argument("--number", help="what is explained of a token, as in nbsal.answer (default: the method's)")
    answer.add_argument(
        "--unit", help=f"what sources are made of: {UNITS} (default: document with --documents, else sentence)"
    )
    answer.add_argument(
        "--rows", choices=("token", "word", "sentence", "reply"), default="reply",
        help="print the best source of each token, word or sentence of the reply (default: those of all of it)",
    )  # fmt: skip
    add_hops(answer)
    add_max_new_tokens(answer)
    answer.add_argument("--html", type=Path, metavar="FILE", help="write the reply and its sources as an HTML page")
    answer.add_argument("--save", type=Path, metavar="FILE", help="save the answer, as `Answer.save` does")


def _answer(options: argparse.Namespace) -> int:
    from nbsal.explain.prompt.reading import paragraphs

    if not options.question.strip():
        raise InputError("The question is empty. Pass a text.", argument="QUESTION", value=options.question)
    with _collector_paused():
        subject = load_replier(options)
    texts = [_read_document(path) for path in options.documents]
    documents = [text[slice(*span)].strip() for text in texts for span in paragraphs(text)]
    chats = subject.tokenizer is not None and subject.tokenizer.chat_template
    asked = [{"role": "user", "content": options.question}] if chats else options.question
    settings = {name: getattr(options, name) for name in ("layout", "unit", "number", "hops", "max_new_tokens")}
    if options.plan:
        explain = nbsal.Explainer(subject, options.method or "occlusion")
        print(explain.plan_reply(asked, options.reply, documents=documents, **settings))
        return 0
    settings["method"] = options.method
    answer = nbsal.answer(subject, asked, options.reply, documents=documents, **settings)
    assert isinstance(answer, nbsal.Answer), "one method gives one answer"
    if options.html:
        write_page(options.html, answer.to_html())
    if options.save:
        try:
            answer.save(options.save)
        except FileError as error:  # about `path`, the argument of `save`
            raise file_error("--save", options.save, error) from error
    print(html.visible(answer.text.strip()))
    print(html.visible(answer.statement().text()))
    _print_sources(answer, options.rows)
    return 0


def _print_sources(answer: "nbsal.Answer", rows: str) -> None:
    """The best sources of the reply, documents before messages; or the best source of each of its parts."""
    print("sources (share of the score):")
    if rows == "reply":
        table = answer.sources(k=len(answer.units), rows=rows)
        kinds = {unit.name: answer.reading.prompt.sources[unit.source].kind for unit in answer.units}
        is_document = table["unit"].map(kinds) == "document"
        table = pandas.concat([table[is_document].head(MOST_SOURCES), table[~is_document].head(MOST_SOURCES)])
    else:
        table = answer.sources(k=1, rows=rows)
    for row in table.to_dict("records"):
        part = "" if rows == "reply" else f"{html.visible(row[rows].strip()):<12} "
        print(f"{part}{row['share']:6.1%}  {html.visible(row['unit'])}: {html.visible(' '.join(row['text'].split()))}")


def _read_document(path: Path) -> str:
    try:
        with file_errors("--documents", path):
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"--documents {path} is not UTF-8. Save it as UTF-8: {error}."
        raise InputError(message, argument="--documents", value=path) from None


def copy_notebooks(folder: Path) -> Iterator[Path]:
    """Copy the tutorial notebooks and their scripts to a folder, overwriting none; yield the notebooks' paths there."""
    package = Path(__file__).parent
    places = (package / "notebooks", package.parent / "notebooks")  # of a wheel, and of a checkout
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(next(place for place in places if place.is_dir()).glob("*.ipynb")):
        for original in (source, source.with_suffix(".py")):
            copy = folder / original.name
            if original.exists() and not copy.exists() and not copy.is_symlink():  # it may lead out of the folder
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
    command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    command += [f"--LabApp.default_url=/lab/tree/{first.name}", NOTICE_DEATH]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    if not _has_display():
        command.append("--no-browser")
    print(f"The notebooks are in {options.folder}. JupyterLab runs at", flush=True)
    print(f"    http://127.0.0.1:{port}/lab/tree/{first.name}?token={token}", flush=True)
    environment = os.environ | {"JUPYTER_TOKEN": token}  # every user of the machine can read a command line
    if sys.platform == "win32":
        return subprocess.call(command, env=environment)
    return os.execve(command[0], command, environment)  # what ends this process ends JupyterLab, with its kernels


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or any(os.environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY"))


if __name__ == "__main__":
    sys.exit(main())
