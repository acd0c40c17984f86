"""Benchmark tables by name: from the folder NBSAL_DATA names, from the hub, or the samples that come along.

A table has the same columns wherever it comes from: those of the hub's `datasets`.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbsal import samples
from nbsal.errors import InputError, MissingExtra, TableMissing, UnknownName
from nbsal.validation import Text, loading

if TYPE_CHECKING:
    import pandas

FOLDER = "NBSAL_DATA"
SINGLE, REVIEW = ("sentence", "label"), ("text", "label")
PAIR, QUESTIONS = ("premise", "hypothesis", "label"), ("question1", "question2", "label")
ANSWERS = ("id", "question", "context", "answers")
PARTS = ("sentence", "text", "premise", "hypothesis", "question1", "question2", "question", "context")


@dataclass(frozen=True)
class Table:
    """Where a table lies on the hub, its columns, the split that is evaluated, and what its labels are called.

    >>> TABLES["sst2"].split, TABLES["sst2"].labels
    ('validation', ('negative', 'positive'))
    """

    hub: tuple[str, ...]
    columns: tuple[str, ...]
    split: str
    labels: tuple[str, ...] = ()


SENTIMENT, ENTAILMENT = ("negative", "positive"), ("entailment", "neutral", "contradiction")
TABLES = {
    "sst2": Table(("nyu-mll/glue", "sst2"), SINGLE, "validation", SENTIMENT),
    "ag_news": Table(("fancyzhx/ag_news",), REVIEW, "test", ("World", "Sports", "Business", "Sci/Tech")),
    "imdb": Table(("stanfordnlp/imdb",), REVIEW, "test", SENTIMENT),
    "yelp_polarity": Table(("fancyzhx/yelp_polarity",), REVIEW, "test", SENTIMENT),
    "mnli": Table(("nyu-mll/glue", "mnli"), PAIR, "validation_matched", ENTAILMENT),
    "snli": Table(("stanfordnlp/snli",), PAIR, "validation", ENTAILMENT),
    "qqp": Table(("nyu-mll/glue", "qqp"), QUESTIONS, "validation", ("different", "duplicate")),
    "squad": Table(("rajpurkar/squad",), ANSWERS, "validation"),
    "squad_v2": Table(("rajpurkar/squad_v2",), ANSWERS, "validation"),
}
SAMPLES = tuple(f"samples/{name}" for name in samples.TEXTS)


def load(
    name: str,
    split: str | None = None,
    *,
    duplicates_only: bool = False,
    shortest: int = 0,
    tokenizer: Any = None,
) -> "pandas.DataFrame":
    """A table by name, a row a text; `split` None is the one that papers report.

    Filters of published evaluations: `duplicates_only` keeps the questions of QQP that ask the same, `shortest` texts
    of at least that many tokens of `tokenizer`, special ones included (Mask-LRP leaves out texts below 20).

    >>> load("samples/reviews").columns.tolist()
    ['text', 'label', 'kind']
    """
    import pandas

    if not isinstance(name, str):
        raise UnknownName("table", name, [*TABLES, *SAMPLES])
    if name in SAMPLES:
        if split is not None:
            raise UnknownName(f"split of {name}", split, [None])
        frame = pandas.DataFrame(samples.texts(name.removeprefix("samples/")))
        if "answer" in frame:  # as SQuAD writes them
            spans = zip(frame.pop("answer"), frame.pop("start"), strict=True)
            answers = [{"text": [text], "answer_start": [start]} for text, start in spans]
            frame["answers"] = pandas.Series(answers, index=frame.index)
    elif name in TABLES:
        frame = pandas.DataFrame(_rows(name, split or TABLES[name].split), columns=list(TABLES[name].columns))
        if "label" in frame:  # hidden labels of test sets, and pairs their judges disagreed on
            frame = frame[frame["label"] >= 0]
    else:
        raise UnknownName("table", name, [*TABLES, *SAMPLES])
    if duplicates_only:
        if name != "qqp":
            raise InputError(f"duplicates_only is about pairs of questions, qqp; {name} has none.")
        frame = frame[frame["label"] == 1]
    given: Any = shortest
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise InputError(f"shortest is a number of tokens, not {shortest!r:.60}.")
    if shortest:
        if not callable(tokenizer):
            raise InputError("shortest counts tokens: pass tokenizer=subject.tokenizer as well.")
        long = [len(_ids(tokenizer, text)) >= shortest for text in texts(frame)]
        frame = frame[long]
    return frame.reset_index(drop=True)


def texts(frame: "pandas.DataFrame") -> list[Text]:
    """The texts of a table, or its pairs, as explainers take them.

    >>> texts(load("samples/pairs"))[0][1]
    'A woman is outside with her dog.'
    """
    if not hasattr(frame, "columns"):
        raise InputError(f"A table is a frame, as nbsal.data.load gives it, not {type(frame).__name__}.")
    parts = [frame[name].tolist() for name in PARTS if name in frame]
    if not 1 <= len(parts) <= 2:
        raise InputError(f"The table has no column of texts among {', '.join(PARTS)}.")
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def labels(name: str) -> list[str]:
    """What a table's labels are called, in the order of their numbers.

    >>> labels("sst2")
    ['negative', 'positive']
    """
    if not isinstance(name, str) or name not in TABLES:
        raise UnknownName("table", name, TABLES)
    return list(TABLES[name].labels)


def _ids(tokenizer: Any, text: Text) -> list[int]:
    parts = (text,) if isinstance(text, str) else text
    return list(tokenizer(*parts, verbose=False)["input_ids"])


def _rows(name: str, split: str) -> list[dict[str, Any]]:
    root = os.environ.get(FOLDER)
    path = Path(root) / name / f"{split}.jsonl" if root else None
    if path and path.exists():
        with loading(path, f"{name} as JSON lines"), path.open(encoding="utf-8") as lines:
            found = [json.loads(line) for line in lines]
        try:
            return [_picked(name, row) for row in found]
        except InputError as error:
            raise InputError(f"{path} is no {name} as JSON lines, or is damaged. {error}") from error
    try:
        read = _hub()
    except MissingExtra as missing:
        where = f"{path} is not there" if path else f"{FOLDER} names no folder of tables"
        raise TableMissing(
            f"{name} ({split}) is not at hand: {where}, and the hub needs pip install 'nbsal[hub]'. Set {FOLDER}, "
            f"install that, or take one of {', '.join(SAMPLES)}."
        ) from missing
    try:
        table = read(*TABLES[name].hub, split=split)
    except Exception as error:  # whatever a network, a proxy or the hub makes of it
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TableMissing(
            f"{name} ({split}) could not be read from the hub: {said} Set {FOLDER} to a folder of tables, or take "
            f"one of {', '.join(SAMPLES)}."
        ) from error
    return [_picked(name, row) for row in table]


def _picked(name: str, row: Any) -> dict[str, Any]:
    wanted = TABLES[name].columns
    if not isinstance(row, Mapping) or not row.keys() >= set(wanted):
        raise InputError(f"A row of {name} has the columns {', '.join(wanted)}; this one does not: {row!r:.80}.")
    return {column: row[column] for column in wanted}


def _hub() -> Callable[..., Any]:
    """`datasets.load_dataset`."""
    try:
        from datasets import load_dataset  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise MissingExtra("Reading tables from the hub", "hub") from None
    return load_dataset  # type: ignore[no-any-return]
