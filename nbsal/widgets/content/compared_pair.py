"""Two explanations of the same text: on one scale, with their rankings, their agreement and their differences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nbsal.evaluation.rankings import jaccard, kendall
from nbsal.explain.explained import Floats
from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.decision_facts import Check
from nbsal.explain.sentences.function_words import is_function_word
from nbsal.explain.sentences.statement import Statement
from nbsal.explain.sentences.statement import verdict as decision
from nbsal.render import html
from nbsal.render.headline import Phrase, in_row, name_in_sentence, percent, phrases, plain
from nbsal.render.names import model_name
from nbsal.render.scores import score_text
from nbsal.render.sheet import Marked
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.validation import plural
from nbsal.widgets.content.compared_verdict import BADGES, compared, decisive, verdict

TOP = 5  # words of each explanation whose overlap is counted
LISTED = 10  # words in the list of differences
AGREEMENT = ((0.7, "well"), (0.4, "moderately"), (0.1, "little"))  # Kendall's tau from which rankings agree so
EQUAL = 0.005  # a difference below half a percent is none
LONGEST = 40  # characters of a word
WEIGHTY = 0.25  # share of the strongest word of each from which opposite signs are told
MOST_OPPOSITE = 3  # words of opposite signs that are named


@dataclass(frozen=True)
class ComparedPair:
    """Two explanations, A and B, of the same tokens; `level` "word" compares the sums of each word's tokens.

    >>> import nbsal
    >>> by_method = nbsal.compare(nbsal.load("demo/reviews"), ["gradcam", "simple"], "A joy.")
    >>> ComparedPair(by_method["gradcam"][0], by_method["simple"][0]).to_frame().columns.tolist()
    ['token', 'first', 'second', 'difference', 'first_rank', 'second_rank']
    """

    first: Saliency
    second: Saliency
    scale: str = "own"
    level: str = "token"

    def __post_init__(self) -> None:
        if (self.first.row.parts, self.first.offsets) != (self.second.row.parts, self.second.offsets):
            message = "Compare needs two explanations of the same text with the same tokens."
            raise InputError(message, argument="other", value=self.second)

    def rows(self) -> tuple[Saliency, Saliency]:
        """The explanations of A and of B."""
        return self.first, self.second

    @cached_property
    def names(self) -> Sequence[str]:
        """The tokens, or the words."""
        return self.first.tokens if self.level == "token" else [word.text for word in self.first.words]

    @cached_property
    def typed(self) -> Sequence[str]:
        """The tokens or words as they stand in the text."""
        row = self.first.row
        spans = zip(row.segments, row.offsets, row.tokens, strict=True)
        tokens = [row.parts[part][start:end] or token for part, (start, end), token in spans]
        return tokens if self.level == "token" else self.names

    @cached_property
    def largest(self) -> tuple[float, float]:
        """The score of each explanation with full colour: its own largest, or the larger of both."""
        first, second = self._largest
        return (first, second) if self.scale == "own" else (max(first, second),) * 2

    @property
    def shares(self) -> tuple[Floats, Floats]:
        """Both scores as shares of full colour."""
        (first, second), (first_largest, second_largest) = self._scores, self.largest
        return first / (first_largest or 1.0), second / (second_largest or 1.0)

    @property
    def difference(self) -> Floats:
        """The first shares minus the second."""
        first, second = self.shares
        return first - second

    @cached_property
    def orders(self) -> tuple[list[int], list[int]]:
        """Both rankings: by the size of the score, for or against; special tokens are not ranked."""
        orders = (each.word_order if self.level == "word" else each.order for each in self.rows())
        sized = zip(orders, self._scores, strict=True)
        first, second = (sorted(order, key=lambda i: -abs(scores[i])) for order, scores in sized)
        return first, second

    @cached_property
    def agreement(self) -> dict[str, float | None]:
        """Kendall's tau of both rankings, and the Jaccard overlap of their top five."""
        first, second = self.orders
        rank = kendall(first, second) if len(first) > 1 else None
        return {"rank": rank, "overlap": jaccard(first[:TOP], second[:TOP])}

    @cached_property
    def opposite(self) -> list[int]:
        """The places with opposite signs that matter to both or decide alone, the weightiest first."""
        if self.first.target != self.second.target:
            return []
        first, second = (scores / (top or 1.0) for scores, top in zip(self._scores, self._largest, strict=True))
        weights = np.minimum(np.abs(first), np.abs(second))
        words = decisive(self.first) | decisive(self.second)
        decide = words if self.level == "word" else {i for word in words for i in self.first.words[word].tokens}
        apart = [i for i in sorted(self.orders[0]) if first[i] * second[i] < 0]
        heavy = [i for i in apart if weights[i] >= WEIGHTY and not is_function_word(self.typed[i])]
        return sorted({*heavy} | ({*apart} & decide), key=lambda i: (-weights[i], i))

    @property
    def checks(self) -> dict[int, Check]:
        """What hiding the words of A (0) and of B (1) does, once that was measured."""
        return {side: each.check for side, each in enumerate(self.rows()) if each.check is not None}

    def with_check(self, check: Check, side: int) -> "ComparedPair":
        """The pair with what hiding the words of one of both does."""
        name = ("first", "second")[side]
        return replace(self, **{name: getattr(self, name).with_check(check)})

    @property
    def same_model(self) -> bool:
        """Whether one model explained both, as far as their results show."""
        first, second = (saliency.probabilities for saliency in self.rows())
        alike = first.shape == second.shape and np.allclose(first, second, atol=1e-4)
        return alike and self._one_model

    def caption(self) -> str:
        """How far both agree, in one sentence."""
        return plain(self.sentence())

    def sentence(self) -> list[Phrase]:
        """What was decided; opposite signs; which of both hiding supports; and how far their rankings agree."""
        hidden = verdict(self.rows(), self.same_model and self.first.target == self.second.target)
        ranks = phrases(self._strongest(), self._largest_difference(), ".")
        return phrases(self._decisions(), self._opposite_signs(), hidden, ranks)

    def statement(self) -> Statement:
        """The sentence, and how its verdict was reached."""
        return compared(self.rows(), self.sentence())

    def heading(self) -> str:
        """How far the rankings agree, which are blind to signs."""
        rank = self.agreement["rank"]
        if rank is None:
            return f"One {self.level} has no ranking."
        tau = round(rank, 2) + 0.0
        degree = next((f"agree {word}" for least, word in AGREEMENT if tau >= least), "do not agree at all")
        agree = f"ankings by absolute score {degree} (τ = {tau:.2f})".replace("-", "\u2212")
        count = len(self.opposite)
        signs = f"{plural(count, self.level)} with opposite signs; r" if count else "R"
        return signs + agree

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each token, or for each word."""
        first, second = self.shares
        columns: dict[str, Any] = {self.level: self.names, "first": first, "second": second}
        columns["difference"] = first - second
        for name, order in zip(("first_rank", "second_rank"), self.orders, strict=True):
            ranks = {i: rank for rank, i in enumerate(order, 1)}
            columns[name] = pandas.array([ranks.get(i) for i in range(len(self.names))], dtype="Int64")
        return pandas.DataFrame(columns)

    def listed(self) -> list["ComparedRow"]:
        """The strongest words with both shares, the largest share first."""
        first, second = self.shares
        sizes = np.maximum(np.abs(first), np.abs(second))
        order = sorted(self.orders[0], key=lambda i: (-sizes[i], i))
        return [self._row(i, float(first[i]), float(second[i])) for i in order[:LISTED]]

    def maxima(self) -> str:
        """The score of the strongest word or token of each, in words."""
        scores = zip(BADGES, self._largest, strict=True)
        return f"The score of the strongest {self.level}: " + ", ".join(f"{b} {score_text(size)}" for b, size in scores)

    def texts(self, difference: bool = False) -> list[tuple[str, Marked]]:
        """The text as A and as B explains it; and, if asked, coloured by the difference of their shares."""
        named = zip(BADGES, self._settings(), self.rows(), self.largest, strict=True)
        texts = [(f"{badge}: {s}", Marked(each.scored_spans(self.level), top)) for badge, s, each, top in named]
        if difference:
            tokens = replace(self, level="token")
            largest = [top or 1.0 for top in self.largest]
            scores = tokens.first.known_scores / largest[0] - tokens.second.known_scores / largest[1]
            spans = replace(self.first, scores=scores).scored_spans(self.level)
            texts.append(("", Marked(spans, 1.0, difference=True)))
        return texts

    def notes(self) -> list[str]:
        """How each explanation was computed; what holds for both is stated once."""
        first = self._models[0]
        named = not self._one_model
        model = [first] if first and not named else []
        methods = [
            f"{badge}: {f'{model}, ' if named and model else ''}{setting}"
            for badge, model, setting in zip(BADGES, self._models, self._settings(), strict=True)
        ]
        warnings = [saliency.notes()[1:] for saliency in self.rows()]
        shared = [note for note in warnings[0] if note in warnings[1]]
        others = [
            f"{badge}: {note}"
            for badge, notes in zip(BADGES, warnings, strict=True)
            for note in notes
            if note not in shared
        ]
        return [*model, *methods, *shared, *others]

    @property
    def _one_model(self) -> bool:
        first, second = (saliency.provenance.get("model") for saliency in self.rows())
        return bool(first == second)

    @property
    def _models(self) -> list[str]:
        return [model_name(str(saliency.provenance.get("model", ""))) for saliency in self.rows()]

    @cached_property
    def _scores(self) -> tuple[Floats, Floats]:
        if self.level == "token":
            return self.first.known_scores, self.second.known_scores
        first, second = (np.array(saliency.word_scores) for saliency in self.rows())
        return first, second

    @cached_property
    def _largest(self) -> tuple[float, float]:
        """The largest absolute score of each explanation."""
        ranked = [scores[order] for scores, order in zip(self._scores, self.orders, strict=True)]
        first, second = (float(np.abs(scores).max(initial=0.0)) for scores in ranked)
        return first, second

    def _settings(self) -> list[str]:
        """The method and layer of each, as the notes name them."""
        named = zip(self.rows(), self._models, strict=True)
        return [saliency.notes()[0].removeprefix(f"{model} · ") for saliency, model in named]

    def _decisions(self) -> list[Phrase]:
        """The prediction of the model, or of both; and what is explained, if that is something else."""
        first, second = self.rows()
        if not self.same_model:
            return phrases("A: ", decision(first.facts()), "; B: ", decision(second.facts()), ". ")
        lead = phrases(decision(first.facts()), ". ")
        a, b = (("class", each.display_name(each.target)) for each in self.rows())
        if first.target != second.target:
            return phrases(lead, "A explains ", a, ", B ", b, ". ")
        return phrases(lead, "Both explain ", a, ". ") if first.contrary else lead

    def _opposite_signs(self) -> list[Phrase]:
        """The weightiest words that one counts for and the other against what both explain."""
        clauses = []
        for side, other in (("against", "for"), ("for", "against")):
            mine = [i for i in self.opposite[:MOST_OPPOSITE] if (self._scores[0][i] < 0) == (side == "against")]
            names = dict.fromkeys(tuple(self._phrases(i, 0)) for i in mine)
            if names:
                clauses.append(phrases("A counts ", in_row([*names]), f" {side}, B {other}"))
        return phrases(*(part for clause in clauses for part in (clause, ". ")))

    def _strongest(self) -> list[Phrase]:
        """The strongest word of each, and how many of the strongest they share."""
        first, second = (order[0] for order in self.orders)
        words = [self._phrases(first, 0), self._phrases(second, 1)]
        if len(self.orders[0]) == 1:
            return phrases(f"The only {self.level} is ", words[0])
        empty = [i for i, largest in enumerate(self._largest) if not largest]
        if len(empty) == 2:
            return phrases(f"Both score every {self.level} 0")
        if empty:
            other = 1 - empty[0]
            lead = f"{BADGES[empty[0]]} scores every {self.level} 0; {BADGES[other]} names "
            return phrases(lead, words[other], " first")
        shared = self._shared()
        if first == second:
            return phrases("Both name ", words[0], " first", shared and f" and {shared}")
        return phrases("A names ", words[0], " first, B ", words[1], shared and f"; they {shared}")

    def _shared(self) -> str:
        """How many of their strongest words they share; nothing if the text has no more."""
        first, second = self.orders
        count = min(TOP, len(first))
        common = len({*first[:count]} & {*second[:count]})
        share = "" if common == count else f"{common or 'none'} of "
        return f"share {share}their {count} strongest {self.level}s" if len(first) > count else ""

    def _largest_difference(self) -> list[Phrase]:
        ranked, difference = self.orders[0], self.difference
        if len(ranked) == 1 or not all(self._largest):
            return []
        most = max(ranked, key=lambda i: (abs(difference[i]), -i))
        if abs(difference[most]) < EQUAL:
            return phrases(f"; they score every {self.level} alike")
        if most in self.opposite[:MOST_OPPOSITE]:  # said already
            return []
        side = int(abs(self.shares[1][most]) > abs(self.shares[0][most]))
        return phrases("; they differ most about ", self._phrases(most, side))

    def _phrases(self, place: int, side: int) -> list[Phrase]:
        """A word, marked by the sign of its score in one of the explanations, and its part of a pair."""
        sign = "against" if self._scores[side][place] < 0 else "for"
        return phrases((sign, name_in_sentence(html.label(self.typed[place], LONGEST))), self._part(place))

    def _part(self, place: int) -> str:
        """Which text of a pair a word is in."""
        row = self.first.row
        part = row.segments[place] if self.level == "token" else row.words[place].segment
        return f" ({self.first.part_names[part]})" if self.first.part_names else ""

    def _row(self, place: int, first: float, second: float) -> "ComparedRow":
        tokens = (place,) if self.level == "token" else self.first.words[place].tokens
        texts = (f"{badge} {whole_percent(share)}" for badge, share in zip(BADGES, (first, second), strict=True))
        return ComparedRow(
            html.label(self.typed[place], LONGEST), self._part(place), tokens[0], (first, second), (*texts,)
        )


class ComparedRow(NamedTuple):
    """A word of the list: its name, its part of a pair, its first token, and both shares, as numbers and in words."""

    name: str
    part: str
    token: int
    shares: tuple[float, float]
    texts: tuple[str, ...]


def whole_percent(share: float) -> str:
    """A share in whole percent.

    >>> whole_percent(-0.001)
    '0\u202f%'
    """
    return percent(round(share, 2) + 0.0, 0)  # no minus sign before a zero
