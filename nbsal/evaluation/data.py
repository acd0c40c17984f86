"""Benchmark tables by name, from a local folder, from the Hugging Face hub, or from the embedded samples.

A table has the columns of the hub's `datasets`, wherever it comes from. The environment variable NBSAL_DATA names the
local folder. It holds sst2/validation.jsonl or .parquet, a split that `datasets` saved (the folder sst2/validation) or
that the hub has in parts (validation-*.parquet), or GLUE's own SST-2/dev.tsv.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

from nbsal import samples
from nbsal.support import table_files
from nbsal.support.errors import InputError, TableMissing, UnknownName
from nbsal.support.lazy import pandas
from nbsal.support.validation import Text, checked, whole_number

__all__ = ("SAMPLES", "TABLES", "Table", "labels", "load", "texts")

FOLDER = "NBSAL_DATA"
SINGLE, REVIEW = ("sentence", "label"), ("text", "label")
PAIR, QUESTIONS = ("premise", "hypothesis", "label"), ("question1", "question2", "label")
ANSWERS = ("id", "question", "context", "answers")
TEXT_COLUMNS = ("sentence", "text", "premise", "hypothesis", "question1", "question2", "question", "context")


@dataclass(frozen=True)
class Table:
    """A table's name and configuration on the hub, its columns, the split to evaluate on, its label names,
    and the splits on the hub.

    >>> TABLES["sst2"].split, TABLES["sst2"].labels
    ('validation', ('negative', 'positive'))
    """

    hub: tuple[str, ...]
    columns: tuple[str, ...]
    split: str
    labels: tuple[str, ...] = ()
    splits: tuple[str, ...] = ("train", "validation", "test")


TRAIN_TEST = ("train", "test")
MNLI = ("train", *(f"{part}_{kind}" for part in ("validation", "test") for kind in ("matched", "mismatched")))
SENTIMENT, ENTAILMENT = ("negative", "positive"), ("entailment", "neutral", "contradiction")
TABLES = {
    "sst2": Table(("nyu-mll/glue", "sst2"), SINGLE, "validation", SENTIMENT),
    "ag_news": Table(("fancyzhx/ag_news",), REVIEW, "test", ("World", "Sports", "Business", "Sci/Tech"), TRAIN_TEST),
    "imdb": Table(("stanfordnlp/imdb",), REVIEW, "test", SENTIMENT, (*TRAIN_TEST, "unsupervised")),
    "yelp_polarity": Table(("fancyzhx/yelp_polarity",), REVIEW, "test", SENTIMENT, TRAIN_TEST),
    "mnli": Table(("nyu-mll/glue", "mnli"), PAIR, "validation_matched", ENTAILMENT, MNLI),
    "snli": Table(("stanfordnlp/snli",), PAIR, "validation", ENTAILMENT),
    "qqp": Table(("nyu-mll/glue", "qqp"), QUESTIONS, "validation", ("different", "duplicate")),
    "squad": Table(("rajpurkar/squad",), ANSWERS, "validation", splits=("train", "validation")),
    "squad_v2": Table(("rajpurkar/squad_v2",), ANSWERS, "validation", splits=("train", "validation")),
}
SAMPLES = tuple(f"samples/{name}" for name in samples.TEXTS)


@checked
def load(
    name: str,
    split: str | None = None,
    *,
    duplicates_only: bool = False,
    shortest: int = 0,
    tokenizer: Any = None,
) -> "pandas.DataFrame":
    """Load a table by name, with one row for each text; the default split is the one that papers report.

    Two filters reproduce published evaluations. `duplicates_only` keeps the pairs of QQP that are labelled as
    duplicates. `shortest` keeps texts of at least that many tokens of `tokenizer`, special tokens included (Mask-LRP
    leaves out texts below 20).

    >>> load("samples/reviews").columns.tolist()
    ['text', 'label', 'kind']
    """
    if not isinstance(name, str) or name not in (*TABLES, *SAMPLES):
        raise UnknownName("name", name, [*TABLES, *SAMPLES])
    if name in SAMPLES:
        if split is not None:
            raise InputError(f"{name} has no splits. Leave out split.", argument="split", value=split)
        frame = _load_samples(name)
    else:
        frame = _load_table(name, split or TABLES[name].split)
    if duplicates_only:
        if name != "qqp":
            message = f"duplicates_only is a filter for qqp, not for {name}."
            raise InputError(message, argument="duplicates_only", value=duplicates_only)
        frame = frame[frame["label"] == 1]
    if least := whole_number(shortest, "shortest"):
        if not callable(tokenizer):
            message = "shortest counts tokens. Pass tokenizer=subject.tokenizer as well."
            raise InputError(message, argument="tokenizer", value=tokenizer)
        frame = frame[[_count_tokens(tokenizer, text) >= least for text in texts(frame)]]
    return frame.reset_index(drop=True)


@checked
def texts(frame: "pandas.DataFrame") -> list[Text]:
    """The texts of a table, or its pairs of texts, as explainers accept them.

    >>> texts(load("samples/pairs"))[0][1]
    'A woman is outside with her dog.'
    """
    if not hasattr(frame, "columns"):
        message = f"frame must be a table such as nbsal.data.load returns, not {type(frame).__name__}."
        raise InputError(message, argument="frame", value=frame)
    names = [name for name in frame.columns if name in TEXT_COLUMNS]
    if len(set(names)) < len(names):
        raise InputError(f"frame has two columns of the same name: {', '.join(names)}.", argument="frame", value=frame)
    columns = [frame[name].tolist() for name in TEXT_COLUMNS if name in names]
    if not 1 <= len(columns) <= 2:
        message = f"frame must have one or two of the columns {', '.join(TEXT_COLUMNS)}, but it has {len(columns)}."
        raise InputError(message, argument="frame", value=frame)
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


@checked
def labels(name: str) -> list[str]:
    """The names of a table's labels, in the order of their numbers.

    >>> labels("sst2")
    ['negative', 'positive']
    """
    if not isinstance(name, str) or name not in TABLES:
        raise UnknownName("name", name, TABLES)
    return list(TABLES[name].labels)


def _load_samples(name: str) -> "pandas.DataFrame":
    frame = pandas.DataFrame(samples.texts(name.removeprefix("samples/")))
    if "start" in frame:  # in the format of SQuAD
        spans = zip(frame.pop("answer"), frame.pop("start"), strict=True)
        answers = [{"text": [text], "answer_start": [start]} for text, start in spans]
        frame["answers"] = pandas.Series(answers, index=frame.index)
    return frame


def _load_table(name: str, split: str) -> "pandas.DataFrame":
    frame = pandas.DataFrame(_read_rows(name, split), columns=list(TABLES[name].columns))
    # A negative label marks the hidden labels of a test set, and pairs that annotators disagreed on.
    return frame[frame["label"] >= 0] if "label" in frame else frame


def _count_tokens(tokenizer: Any, text: Text) -> int:
    parts = (text,) if isinstance(text, str) else text
    return len(tokenizer(*parts, verbose=False)["input_ids"])


def _read_rows(name: str, split: str) -> list[dict[str, Any]]:
    root = os.environ.get(FOLDER)
    path = table_files.find(Path(root), name, split) if root else None
    if path:
        return [_select_columns(name, row, path) for row in table_files.read(path, name, TABLES[name].labels)]
    splits = TABLES[name].splits
    if re.split(r"[\[+]", split)[0].strip() not in (*splits, "all"):  # it also reads "train[:100]" and "train + test"
        raise UnknownName("split", split, splits)
    try:
        from datasets import load_dataset  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as missing:
        reason = f"{Path(root) / name} has no {split}.jsonl, .parquet or .tsv" if root else f"{FOLDER} is not set"
        raise TableMissing(
            f"The table {name} ({split}) is not available: {reason}, and the hub needs pip install 'nbsal[hub]'. "
            f"Set {FOLDER}, install that extra, or choose one of: {', '.join(SAMPLES)}.",
            argument="name",
            value=name,
        ) from missing
    try:
        rows = load_dataset(*TABLES[name].hub, split=split)
    except Exception as error:  # whatever a network, a proxy or the hub raises
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TableMissing(
            f"The table {name} ({split}) could not be loaded from the hub: {reason} Set {FOLDER} to a folder of "
            f"tables, or choose one of: {', '.join(SAMPLES)}.",
            argument="name",
            value=name,
        ) from error
    return [_select_columns(name, row, "the hub") for row in rows]


def _select_columns(name: str, row: Any, source: object) -> dict[str, Any]:
    columns = TABLES[name].columns
    if not isinstance(row, Mapping) or not row.keys() >= set(columns):
        message = f"A row of {name} from {source} lacks one of the columns {', '.join(columns)}: {row!r:.80}."
        raise InputError(message, argument="name", value=name)
    if not isinstance(label := row.get("label"), Real | None):
        message = f"A row of {name} from {source} has the label {label!r:.80}, which is not a number."
        raise InputError(message, argument="name", value=name)
    return {column: row[column] for column in columns}


def __dir__() -> list[str]:
    return sorted(__all__)
