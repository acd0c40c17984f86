"""Run the Python of the guides and of the README, each page from top to bottom in a folder prepared for it."""

import ast
import json
import re
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import nbsal
from tests import wrapped, zoo
from tests.docs.repository import ROOT
from tests.real import tiny_gguf

GUIDES = ROOT / ".docs" / "guides"
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(r"\n\n```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXTRAS = {
    "lora-adapter": "peft",
    "SentenceTransformer": "sentence_transformers",
    "model.gguf": "gguf",
}  # what needs which library
LABELS = {"0": "harmless", "1": "toxic"}


def blocks(page: Path, language: str = "python") -> list[str]:
    """The blocks of a page in a language."""
    return [block for block, _ in with_outputs(page, language)]


def with_outputs(page: Path, language: str = "python") -> list[tuple[str, str | None]]:
    """The blocks of a page in a language, each with the text block that follows at once and shows its output."""
    text = page.read_text(encoding="utf-8")
    matches = [match for match in BLOCK.finditer(text) if match[1] == language]
    outputs = [OUTPUT.match(text, match.end()) for match in matches]
    return [(match[2], output and output[1]) for match, output in zip(matches, outputs, strict=True)]


def run(page: Path, namespace: dict[str, Any]) -> int:
    """Run the blocks of a page in the working folder, in order; returns how many of them were run.

    A block that needs a library that is not installed is left out. A block must print the output that the page shows.
    """
    ready = [(block, output) for block, output in with_outputs(page) if can_run(block)]
    for block, output in ready:
        with redirect_stdout(StringIO()) as printed:
            exec(compile(block, str(page), "exec"), namespace)
        shown = output is None or output.split() == printed.getvalue().split()  # some spaces are narrow ones
        assert shown, f"{page.name} shows\n{output}but it is\n{printed.getvalue()}"
    return len(ready)


def prepare(folder: Path) -> None:
    """Write what the pages call by example names: a classifier with its LM checkpoint, an encoder, and a table."""
    models = folder / "models"
    classifier = zoo.save(models, "roberta", "sequence", num_labels=len(LABELS))
    config = json.loads((classifier / "config.json").read_text(encoding="utf-8"))
    config |= {"id2label": LABELS, "label2id": {name: int(number) for number, name in LABELS.items()}}
    (classifier / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "path" / "to").mkdir(parents=True)
    for name in ("my-classifier", "path/to/your-roberta-classifier", "path/to/model"):
        (folder / name).symlink_to(classifier)
    (folder / "roberta-base").symlink_to(zoo.save(models, "roberta", zoo.lm_head("roberta"), seed=1))
    (folder / "my-encoder").symlink_to(wrapped.body(models))
    if find_spec("peft"):
        adapter = wrapped.adapted(name="roberta")
        adapter.peft_config["default"].base_model_name_or_path = str(zoo.save(models, "roberta", "sequence"))
        adapter.save_pretrained(folder / "path" / "to" / "lora-adapter")
    if find_spec("gguf"):
        tiny_gguf.write(folder / "model.gguf")
    rows = [row["text"].replace('"', "'") for row in nbsal.samples.texts("reviews")[:10]]
    (folder / "reviews.csv").write_text("review\n" + "".join(f'"{row}"\n' for row in rows), encoding="utf-8")


def can_run(block: str) -> bool:
    """Whether the libraries that a block needs are installed."""
    return all(map(find_spec, needs(block)))


def needs(block: str) -> set[str]:
    """The libraries that a block imports or otherwise needs."""
    names = {library for word, library in EXTRAS.items() if word in block}
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}
