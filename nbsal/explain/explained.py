"""What every explanation is: scores over the tokens of a text, how they were computed, and what hiding parts does."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nbsal.explain.sentences.decision_facts import Check
from nbsal.methods import labels
from nbsal.methods.facts import label_of
from nbsal.model.loading.plain_values import from_plain, numbers
from nbsal.model.loading.result_file import load_result, save_result
from nbsal.model.loading.saved_files import check_format, read_json
from nbsal.model.text.tokens import Row, Span, Word
from nbsal.render.exports import Exportable
from nbsal.render.headline import percent
from nbsal.render.names import display_name, model_name
from nbsal.support.arrays import Flags
from nbsal.support.errors import InputError, NbsalError
from nbsal.support.validation import Text, checked, plural

if TYPE_CHECKING:
    import pandas

    from nbsal.explain.sentences.statement import Statement

MOST, ALMOST_ALL = 0.5, 0.8  # shares of the scores on special tokens, and of these on one of them, that are told
NOTABLE_GAP = 0.05  # share of the explained change from which a completeness gap is marked
FORMAT = 1  # of JSON, which 0.2.0 wrote during its development
PAIRED = "The model was fine-tuned on single texts, and this is a pair. Pass one text."
PLACE = re.compile(r" (\[\d+:\d+\]|(at|after) .* \[\d+(:\d+)?\])$", re.DOTALL)  # where a target is in the text
TYPES = {"target": str, "prediction": str, "method": str, "provenance": dict}  # of the entries in a file
ARRAYS = ("probabilities", "scores", "tie_breaker")
Floats = NDArray[np.floating[Any]]


@checked
class Explained(Exportable):
    """The scores of a decision at one layer or at all, or of the tokens of a reply, with their provenance."""

    noun: ClassVar[str]  # in files, and in messages about them
    unsaved: ClassVar[tuple[str, ...]] = ()  # fields that no file holds
    method: str
    provenance: dict[str, Any]

    @property
    def label(self) -> str:
        """The name of the method as people read it."""
        return label_of(self.method, self.provenance)

    @property
    def about_target(self) -> bool:
        """Whether the scores depend on the target; assumed of methods of which nothing is known."""
        return "not_about_target" not in self._promise

    @property
    def _promise(self) -> Collection[str]:
        """What is known of the method's scores: by provenance, or, of earlier files, by the method's name."""
        if isinstance(promise := self.provenance.get("promise"), list):
            return promise
        if (own := labels.own_promise(self.method)) is not None:
            return own
        try:
            from nbsal.methods import catalogue

            method: Any = catalogue.create(self.method)
        except NbsalError:  # torch is missing, the name is unknown, or the method of another package needs settings
            return ()
        return getattr(method, "promise", ())

    def statement(self) -> "Statement":
        """What is said about the result, and how it was checked."""
        raise NotImplementedError

    def effects(self) -> "pandas.DataFrame":
        """What hiding parts of the text does, as `check` measured it: a row for each set that was hidden.

        The columns are what was `hidden` (nothing in the first row), the `kind` of set, the `value` of the target
        without it, its `change`, and the `outcome`: what the model then decides or writes.
        """
        raise NotImplementedError

    def notes(self) -> list[str]:
        """What a reader must know to judge the scores."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Save in a file of its own format; `load` restores every number exactly, without any model."""
        save_result(path, type(self), self.noun, self, type(self)._check_fields, self.unsaved)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load what `save` wrote."""
        return load_result(path, cls, cls.noun, cls._load_json, cls._check_fields)

    @classmethod
    def _load_json(cls, path: str | Path) -> Self:
        """Load what 0.2.0 wrote during its development."""
        raise NotImplementedError

    def _check_fields(self) -> None:
        """Raise ValueError or another error of damage if the fields do not fit each other."""
        raise NotImplementedError

    def _page_title(self) -> str:
        return self.statement().text()

    def _repr_html_(self) -> str:
        return self.render_html()


@dataclass(frozen=True, eq=False)
@checked
class Explanation(Explained):
    """The explanation of a decision about a text: scores, text and tokens, the decision, and how it was computed.

    `target` is what was explained, `prediction` what the model predicts, both by name; `provenance` records the model,
    the method and its settings.
    """

    row: Row
    target: str
    prediction: str
    probabilities: Floats
    method: str
    provenance: dict[str, Any]
    scores: Floats = field(default_factory=lambda: np.empty(0))
    tie_breaker: Floats = field(default_factory=lambda: np.empty(0))  # orders tokens of equal score
    checks: dict[int, Check] = field(default_factory=dict)  # of rows of scores: what hiding their words does

    dimensions = 1  # of the scores

    @property
    def text(self) -> Text:
        """The text, or the pair of texts, as typed."""
        return self.row.text

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens that the model read, including special tokens."""
        return self.row.tokens

    @property
    def offsets(self) -> tuple[Span, ...]:
        """The start and end of each token in the text as typed."""
        return self.row.offsets

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of the text with the tokens of each."""
        return self.row.words

    @property
    def special(self) -> Flags:
        """True for special tokens, which have scores but are never ranked."""
        return np.array(self.row.special)

    @property
    def explained_class(self) -> str:
        """The class that positive scores support: the target, or the prediction where the target is at a position."""
        return self.prediction if self.target.endswith("]") else self.target

    @property
    def confidence(self) -> float | None:
        """The probability of the prediction; of a span, that of its start times that of its end. Values have none."""
        if not self.probabilities.size:
            return None
        if self.probabilities.ndim == 1:
            return float(self.probabilities.max())
        segments, content = self.row.segments, self.row.content
        context = [i for i in content if segments[i] == max(segments)] or list(content)
        starts, ends = self.probabilities[context].T
        return float(np.triu(np.outer(starts, ends)).max())

    def outcome(self) -> str:
        """The prediction with its confidence, if it has one."""
        prediction = self.display_name(self.prediction)
        return prediction if self.confidence is None else f"{prediction} ({self.confidence:.1%})"

    def caption(self) -> str:
        """The prediction with its confidence, the target if it differs, and the method, in one line."""
        target = self.display_name(self.target)
        target = "" if target == self.display_name(self.prediction) else f", explained: {target}"
        return f"{self.outcome()}{target} | {self.method}"

    @property
    def contrary(self) -> bool:
        """Whether something else than the prediction is explained, at whatever place."""
        name = PLACE.sub("", self.target)  # of an entity, a kind such as PER
        alike = self.prediction in (self.target, name, f"B-{name}", f"I-{name}") or self.target in self.decided
        return self.about_target and self.confidence is not None and not alike

    @property
    def decided(self) -> dict[str, float]:
        """The labels of at least one half, with their probabilities, of a model that gives several to a text."""
        labels = self.provenance.get("decided")
        valid = isinstance(labels, dict) and all(isinstance(value, float) for value in labels.values())
        return labels if valid else {}  # type: ignore[return-value]

    @property
    def place(self) -> str:
        """Where in the text the prediction of a tagger is, in words; "" for all other predictions."""
        match = None if self.contrary or self.provenance.get("predicts_token") else PLACE.search(self.target)
        number = match[0].rpartition("[")[2][:-1] if match else ""
        if number.isdecimal():  # a token, which may be part of a word
            words = (word.text for word in self.words if int(number) in word.tokens)
            return next((f" at “{word}”" for word in words), "")
        return self.display_name(f"x{match[0]}").removeprefix("x") if match else ""

    def display_name(self, label: str) -> str:
        """The name of a target or of a prediction as people read it."""
        return display_name(label, is_token=bool(self.provenance.get("predicts_token")))

    @property
    def signed(self) -> bool:
        """Whether the scores speak for and against the target; assumed of methods of which nothing is known."""
        return "nonnegative" not in self._promise or bool((self.scores < 0).any())

    @property
    def known_scores(self) -> Floats:
        """The scores as pages and sentences have them: 0 where a method divided 0 by 0."""
        return np.nan_to_num(self.scores)

    @property
    def unit(self) -> str:
        """What scores are of, in words."""
        return f"score for {self.display_name(self.target)}" if self.about_target else "score"

    def notes(self) -> list[str]:
        layer = self.provenance.get("parameters", {}).get("layer")
        place = (f", layer {layer}" if layer else ", embeddings") if isinstance(layer, int) else ""
        lines = [f"{model_name(str(self.provenance.get('model', '')))} · {self.label}{place}".removeprefix(" · ")]
        if self.row.dropped:
            dropped = plural(self.row.dropped, "token")
            lines.append(f"The text is longer than the model reads: the last {dropped} were not read.")
        if self.provenance.get("unpaired"):
            lines.append("▲ The model judges a premise and a hypothesis, and this is one text. Pass a pair of texts.")
        if self.provenance.get("paired"):
            lines.append(f"▲ {PAIRED}")
        if self.provenance.get("windows", 1) > 1:
            lines.append(f"Read in {self.provenance['windows']} overlapping windows, averaged.")
        if self.probabilities.ndim > 1:
            lines.append("The probability of an answer is that of its start times that of its end.")
        if "gap" in self.provenance:
            gap, change = self.provenance["gap"], self.provenance["change"]
            notable = abs(gap) > NOTABLE_GAP * abs(change)
            warning, advice = ("▲ ", gap_advice(self.provenance)) if notable else ("", "")
            total = f"Scores sum to {change + gap:+.3g}"
            lines.append(f"{warning}{total}; the output changed by {change:+.3g} from the baseline{advice}.")
        return lines

    def rows(self) -> Sequence[Any]:
        """The Saliency of each row of scores."""
        raise NotImplementedError

    def with_check(self, check: Check, row: int = 0) -> Self:
        """The explanation with what hiding the words of one row of scores does."""
        return replace(self, checks=self.checks | {row: check})

    def settings(self) -> str:
        """All settings of the method, the precision, and the folder of the model, in one line."""
        parameters = self.provenance.get("parameters", {})
        settings = [f"{name}={value}" for name, value in parameters.items()]
        model = str(self.provenance.get("model", ""))
        folder = [] if model == model_name(model) else [model]
        return ", ".join([self.method, *settings, str(self.provenance.get("dtype", "")), *folder])

    def save(self, path: str | Path) -> None:
        if not np.isfinite(self.scores).all():
            message = "The scores contain NaN or infinity, which a file cannot hold."
            raise InputError(message, argument="scores", value=self.scores)
        super().save(path)

    @classmethod
    def _load_json(cls, path: str | Path) -> Self:
        content = read_json(path)
        check_format(path, content["nbsal"], FORMAT)
        dtype = {"float32": np.float32, "float64": np.float64}[content["dtype"]]
        arrays: dict[str, Any] = {name: numbers(content[name], dtype) for name in ARRAYS}
        names = {name: from_plain(kind, content[name]) for name, kind in TYPES.items()}
        checks = from_plain(dict[int, Check], content["checks"])
        return cls(row=from_plain(Row, content["row"]), checks=checks, **names, **arrays)

    def _check_fields(self) -> None:
        self.row.check_fields()
        shape, ties = self.scores.shape, self.tie_breaker.shape
        if len(shape) != self.dimensions or shape[-1] != len(self.row) or shape != ties:
            raise ValueError("the numbers of scores and tokens differ")
        if not all(np.isfinite(getattr(self, name)).all() for name in ARRAYS):
            raise ValueError("numbers that are NaN or infinite")
        if type(self.provenance["parameters"]) is not dict:
            raise ValueError("the settings of the method have the wrong type")
        self.caption(), self.notes()  # fail now, not later, on provenance with wrong values


def share_texts(special: float) -> list[str]:
    """How much of the score is on words, and how much on special tokens."""
    return [f"{percent(1 - special, 0)} of the score on words", f"{percent(special, 0)} on special tokens"]


def special_share(row: Row, scores: Floats) -> float:
    """The share of all absolute scores that lies on special tokens."""
    sizes = np.abs(np.nan_to_num(scores))
    total = float(sizes.sum())
    return float(sizes[np.array(row.special)].sum()) / total if total else 0.0


def share_warning(row: Row, scores: Floats) -> str:
    """That most of the score lies on special tokens."""
    sizes = np.abs(scores) * row.special
    place = int(sizes.argmax())
    where = f", almost all on {row.tokens[place]}" if sizes[place] > ALMOST_ALL * sizes.sum() else ""
    return f"Most of the score lies on special tokens{where}. Colours compare the words alone."


def unchecked() -> InputError:
    """The error for the effects of what was not hidden yet."""
    message = "Nothing was hidden yet. Explain with check=True, or pass the result to Explainer.check."
    return InputError(message, argument="check", value=False)


def gap_advice(provenance: dict[str, Any]) -> str:
    """What closes the gap of scores, for the end of a note."""
    takes_more = provenance.get("method") == "integrated" and provenance.get("parameters", {}).get("tolerance") is None
    return f"; Integrated(tolerance={NOTABLE_GAP}) takes as many points as it needs" if takes_more else ""


@cache
def versions() -> dict[str, str]:
    """The versions of the packages that scores depend on.

    >>> sorted(versions())
    ['nbsal', 'torch', 'transformers']
    """
    return {name: version(name) for name in ("nbsal", "torch", "transformers")}
