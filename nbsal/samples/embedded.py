"""Small models that work without a network, and sample texts written for this project."""

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from nbsal.samples import base, notes, planted, small
from nbsal.support.errors import UnknownName, WeightsError
from nbsal.support.validation import checked

KINDS = {
    "reviews": "SequenceClassification",
    "news": "SequenceClassification",
    "nli": "SequenceClassification",
    "answers": "QuestionAnswering",
}
LABELS = {
    "reviews": ["negative", "positive"],
    "news": ["World", "Sports", "Business", "Sci/Tech"],
    "nli": ["entailment", "neutral", "contradiction"],
}
TEXTS = ("reviews", "news", "pairs", "answers", "notes", "asides")
ENCODERS = {f"demo/{task}": 5 for task in KINDS} | {small.NAME: small.DEFAULT_LAYER}  # with their default layers
NAMES = (*ENCODERS, notes.NAME, *(planted.PREFIX + shortcut for shortcut in planted.SHORTCUTS))
MASKS = Path(__file__).parent / "masks"


@checked
def texts(name: str) -> list[dict[str, Any]]:
    """The rows of a collection of sample texts.

    >>> len(texts("reviews")), sorted(texts("reviews")[0])
    (160, ['kind', 'label', 'text'])
    """
    if name not in TEXTS:
        raise UnknownName("name", name, TEXTS)
    lines = (files(__package__) / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@checked
def delta(name: str) -> Any:
    """The low-rank weight delta of an embedded model, or of the `body` that four encoders share; else all weights.

    >>> "classifier.weight" in delta("reviews")
    True
    """
    from safetensors import SafetensorError

    from nbsal.samples import weight_files

    with as_file(files(__package__) / "weights" / f"{name}.safetensors") as path:
        try:
            return weight_files.load(path)
        except (OSError, SafetensorError) as error:
            raise WeightsError(f"{path} is missing or damaged: {error}. Reinstall nbsal.") from error


@checked
def mask_file(name: str) -> Path | None:
    """The file of an embedded model's heads that follow syntax or position, written by `tests/training/masks.py`.

    >>> mask_file("demo/reviews").name
    'reviews.nbsal'
    """
    _check_name(name)
    path = MASKS / f"{name.removeprefix('demo/')}.nbsal"
    return path if path.exists() else None


def default_classifier() -> str:
    """The name of the model that classifies reviews where none is named: the best that can be loaded.

    >>> default_classifier()
    'demo/reviews'
    """
    return "demo/reviews" if all(map(base.installed, base.DIGESTS)) else small.NAME


@checked
def tokenizer(name: str) -> Any:
    """The tokenizer of an embedded model.

    >>> tokenizer("demo/notes").tokenize("Mara lives in Oslo.")
    ['Mara', ' lives', ' in', ' Oslo', '.']
    """
    _check_name(name)
    if name.startswith(planted.PREFIX):
        return planted.tokenizer()
    return {notes.NAME: notes, small.NAME: small}.get(name, base).tokenizer()


@checked
def build(name: str) -> Any:
    """Build an embedded model such as "demo/reviews".

    Most encoders are the base weights with the deltas of the body and the task; "demo/reviews-small", "demo/notes" and
    the planted models, such as "planted/word", have weights of their own.

    >>> build("demo/news").config.num_labels
    4
    """
    from nbsal.samples import low_rank, models

    _check_name(name)
    if name == notes.NAME:
        return notes.build(delta("notes")).eval().requires_grad_(False)
    if name == small.NAME:
        return small.build("SequenceClassification", delta("reviews-small")).eval().requires_grad_(False)
    if name.startswith(planted.PREFIX):
        return planted.build(delta(name)).eval().requires_grad_(False)
    task = name.removeprefix("demo/")
    settings = base.class_settings(task, LABELS[task]) if task in LABELS else {}
    model = models.unfilled(KINDS[task], **settings)
    low_rank.merge(model, delta("body"))
    low_rank.merge(model, delta(task))
    return model.eval().requires_grad_(False)


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise UnknownName("model", name, NAMES, choice=f"Choose one of: {', '.join(NAMES)}.")


@checked
def build_lm(name: str = "demo/reviews") -> Any:
    """Build the model with the LM head that decodes an embedded encoder: what it was fine-tuned from, or learnt with.

    >>> type(build_lm()).__name__
    'BertForMaskedLM'
    """
    from nbsal.samples import low_rank, models

    if name not in ENCODERS:
        raise UnknownName("model", name, ENCODERS)
    if name == small.NAME:
        return small.build("MaskedLM", delta("reviews-small")).eval().requires_grad_(False)
    model = models.unfilled("MaskedLM")
    low_rank.merge(model, delta("body"))
    return model.eval().requires_grad_(False)
