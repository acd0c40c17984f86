"""The embedded default: small models that work without a network, and texts written to try them on."""

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from nbsal.errors import UnknownName
from nbsal.model.head_mask import HeadMask

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
TEXTS = ("reviews", "news", "pairs", "answers")
DEFAULT_LAYER = 5
MASKS = Path(__file__).parent / "masks"


def texts(name: str) -> list[dict[str, Any]]:
    """The sample rows of that name, written for this project.

    >>> len(texts("reviews")), sorted(texts("reviews")[0])
    (160, ['kind', 'label', 'text'])
    """
    if name not in TEXTS:
        raise UnknownName("collection of sample texts", name, TEXTS)
    lines = (files(__package__) / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def delta(name: str) -> Any:
    """The shipped low-rank weights of that name.

    >>> "classifier.weight" in delta("reviews")
    True
    """
    from safetensors.torch import load_file

    with as_file(files(__package__) / "weights" / f"{name}.safetensors") as path:
        return load_file(path)


def mask(name: str) -> HeadMask | None:
    """The heads of an embedded model that follow syntax or position, as `nbsal.samples.training.masks` found them.

    >>> mask("demo/reviews").shape
    (6, 12)
    """
    path = MASKS / f"{name.removeprefix('demo/')}.json"
    return HeadMask.load(path) if path.exists() else None


def build(name: str) -> Any:
    """An embedded model such as "demo/reviews": the base weights, the adapted body, the task's own delta.

    >>> build("demo/news").config.num_labels
    4
    """
    from nbsal.samples import low_rank, models

    task = name.removeprefix("demo/")
    if not name.startswith("demo/") or task not in KINDS:
        raise UnknownName("embedded model", name, [f"demo/{task}" for task in KINDS])
    settings = {"id2label": dict(enumerate(LABELS[task]))} if task in LABELS else {}
    model = models.blank(KINDS[task], **settings)
    low_rank.merge(model, delta("body"))
    low_rank.merge(model, delta(task))
    return model.eval().requires_grad_(False)


def build_lm() -> Any:
    """The adapted body with its LM head: the pretrained model that the embedded models were fine-tuned from.

    >>> type(build_lm()).__name__
    'BertForMaskedLM'
    """
    from nbsal.samples import low_rank, models

    model = models.blank("MaskedLM")
    low_rank.merge(model, delta("body"))
    return model.eval().requires_grad_(False)
