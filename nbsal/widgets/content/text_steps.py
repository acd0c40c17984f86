"""The steps from the explanation of a text: is it true, other classes and methods, inside, all texts like it."""

import io
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.methods.lazy import Subject
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.validation import Text
from nbsal.widgets.page.next_view import Step

TEXT, LABEL = "text", "label"  # columns of a table
SAMPLES = {"demo/reviews": "reviews", "demo/reviews-small": "reviews", "demo/news": "news"}
FORMATS = ".csv, .jsonl, .json or .txt"
LEAST = 5  # texts that name a word, of many

Texts = tuple[Sequence[Text], Sequence[Any] | None]  # with the labels, if there are any

_KNOWN: WeakKeyDictionary[Subject, Texts] = WeakKeyDictionary()


def remember(subject: Subject, texts: Sequence[Text], labels: Sequence[Any] | None) -> None:
    """Keep the texts that a model was shown last, for the step from one text to all texts like it."""
    _KNOWN[subject] = texts, labels


def text_steps(
    explainer: Explainer,
    saliency: Saliency,
    target: Any,
    outcomes: Sequence[tuple[str, float]],
    choices: dict[str, Any],
) -> dict[str, Step]:
    """The steps from the explanation of a text, with the likeliest outcomes and what its view offers to choose from."""
    subject, settings = explainer.subject, {"text": saliency.text, "target": target}
    hiding = choices["hiding"]
    steps = {"games": Step("is it true?", lambda views: views.Games(explainer, **settings))}
    others = [*dict(outcomes)]
    if saliency.target in others and len(others) > 1 and choices["labels"]:
        rival = others[others[0] == saliency.target]
        compare = {"other_target": rival}
        steps["class"] = Step(f"why not {rival}?", lambda views: views.Compare(explainer, **compare, **settings))
    if hiding and explainer.method.name != hiding["name"]:
        other = {"other_method": hiding["name"], "other_target": target}
        steps["method"] = Step(
            f"compare with {hiding['label']}", lambda views: views.Compare(explainer, **other, **settings)
        )
    if choices["layered"]:  # a model whose layers can be read
        steps["layers"] = Step("layers", lambda views: views.Layers(explainer.for_layers, **settings))
        steps["heads"] = Step("heads", lambda views: views.Heads(subject, **settings))
    unknown = subject not in _KNOWN and subject.name not in SAMPLES
    steps["texts"] = Step("all texts like this", partial(_texts_like, explainer, saliency), needs_file=unknown)
    return steps


def corpus_steps(explainer: Explainer, texts: Sequence[Text], labels: Any, opened: Text | None) -> dict[str, Step]:
    """The steps from many texts: the text that is opened, and what the model relies on in all of them."""
    steps = {}
    if opened is not None:
        steps["text"] = Step("this text in full", lambda views: views.Workbench(explainer, text=opened))
    if explainer.subject.task == "sequence" and explainer.subject.labels:
        mislead = "which words mislead the model?" if labels is not None else "which words does the model go by?"
        least = max(2, min(LEAST, len(texts) // 50))  # so that a few texts name a word to try, too
        steps["audit"] = Step(mislead, lambda views: views.Audit(explainer, texts, labels, least=least))
        steps["clouds"] = Step("the words of each class", lambda views: views.Clouds(explainer, texts, labels=labels))
    return steps


def read_texts(name: str, content: str) -> Texts:
    """The texts in a file, and their labels if it has a column of these.

    >>> read_texts("a.csv", "text,label\\nA joy.,positive\\n")
    (['A joy.'], ['positive'])
    """
    kind = Path(name).suffix.lower()
    if kind == ".txt":
        return [line for line in content.splitlines() if line.strip()], None
    if kind not in (".csv", ".jsonl", ".json"):
        raise InputError(f"{name:.80} is not a {FORMATS} file.", argument="file", value=name)
    file = io.StringIO(content)
    try:
        frame = pandas.read_csv(file) if kind == ".csv" else pandas.read_json(file, lines=kind == ".jsonl")
    except ValueError as error:
        raise InputError(f"{name:.80} could not be read: {error!s:.120}", argument="file", value=name) from error
    return texts_of(frame)


def texts_of(frame: "pandas.DataFrame", labels: Any = None) -> Texts:
    """The texts of a data frame, and their labels: a sequence, or those in a column, by default "label"."""
    if TEXT not in frame.columns:
        message = f'A table needs the column "{TEXT}"; this one has {", ".join(map(str, frame.columns))}.'
        raise InputError(message, argument="what", value=frame)
    if labels is None and LABEL in frame.columns:
        labels = LABEL
    return list(frame[TEXT]), list(frame[labels]) if isinstance(labels, str) else labels


def _texts_like(explainer: Explainer, saliency: Saliency, views: Any, file: str = "", content: str = "") -> Any:
    """The texts with the word that matters: those that the model was shown last, its samples, or those of a file."""
    texts, labels = read_texts(file, content) if file else _known_texts(explainer.subject)
    return views.Browse(explainer, texts, labels=labels, token=_shared_word(saliency, texts))


def _known_texts(subject: Subject) -> Texts:
    from nbsal import samples

    if subject not in _KNOWN and subject.name in SAMPLES:
        rows = samples.texts(SAMPLES[subject.name])
        remember(subject, [row[TEXT] for row in rows], [row[LABEL] for row in rows])
    return _KNOWN.get(subject, ((), None))


def _shared_word(saliency: Saliency, texts: Iterable[Text]) -> str:
    """The word that hiding or, unchecked, the scores name first, if a text has it."""
    check = saliency.check
    if check is not None and check.named:
        words = [check.candidates[number].text for number in check.named]
    else:
        words = saliency.by_word().nlargest(1, "score")["word"].tolist()
    word = words[0].casefold() if words else ""
    return words[0] if word and any(word in str(text).casefold() for text in texts) else ""
