"""A reply with the scores of its tokens: which parts of the prompt and of the reply before it each one comes from."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Event
from typing import Any, Self

import numpy as np

from nbsal.ablation.texts import REMOVE
from nbsal.explain import answer_file
from nbsal.explain import answer_tables as tables
from nbsal.explain.answer_page import AnswerPicture, reply_likelihood, rivals_of
from nbsal.explain.explained import NOTABLE_GAP, Explained, gap_advice, unchecked
from nbsal.explain.judgement import Judgement, JudgeSettings, judge
from nbsal.explain.prompt.reading import PromptWithReply, TokenStatistics, Unit
from nbsal.explain.prompt.reply_span import tokens_of
from nbsal.explain.scoring.hops import ALL, SUMMED_HOPS, Count, Hops, check_hops, follow_answer
from nbsal.explain.scoring.lazy import statistics
from nbsal.explain.scoring.running import OF_ONE_TARGET, ReplyMethod, SpanSaliency
from nbsal.explain.scoring.score_matrix import ScoreMatrix
from nbsal.explain.sentences.evidence import Evidence, Level, evidence_level, measure, subsets
from nbsal.explain.sentences.hop_words import find_route, hide_words
from nbsal.explain.sentences.phrases import PhraseMatrix
from nbsal.explain.sentences.reply_facts import PartFacts, ReplyFacts, part_text
from nbsal.explain.sentences.reply_sentences import statement
from nbsal.explain.sentences.statement import Statement
from nbsal.model.target import Target
from nbsal.render.headline import percent
from nbsal.render.names import model_name
from nbsal.render.sheet import Sheet
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked, plural

SUMMED = "scores of the reply's tokens, added up; the view Answers explains the whole reply as one target"


@dataclass(frozen=True, eq=False)
@checked
class Answer(Explained):
    """The scores of every token of a reply, [reply token, token of prompt and reply]; `nbsal.answer` makes it.

    `units` are the parts that `sources` speaks of. `linear` says whether the sum of some rows explains the sum of their
    tokens. `evidence` holds what leaving out each source changes; sentences say no more than that.

    >>> import nbsal
    >>> question = [{"role": "user", "content": "Where does Mara live?"}]
    >>> result = nbsal.answer(nbsal.load("demo/notes"), question, documents=["Mara lives in Oslo."], progress=False)
    >>> result.tokens()["token"].tolist()
    [' Mara', ' lives', ' in', ' Oslo', '.', '</s>']
    >>> result.text
    ' Mara lives in Oslo.'
    """

    reading: PromptWithReply
    score_matrix: ScoreMatrix
    statistics: TokenStatistics
    units: tuple[Unit, ...]
    method: str
    number: str
    linear: bool
    provenance: dict[str, Any]
    evidence: Evidence | None = None  # what leaving out the sources changes
    followed: Hops | None = None  # scores of the tokens through the reply (see `through`), which all else shows
    running: ReplyMethod | None = field(default=None, repr=False)  # the model, to explain spans and rivals; not saved

    noun, unsaved = "Answer", ("running", "origin")  # the model, and the request that the prompt was read from

    @property
    def text(self) -> str:
        """The reply, without its special tokens; `tokens()` has these too."""
        return self.reading.reply

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens of the reply."""
        return self.reading.reply_ids

    @property
    def explained(self) -> int:
        """How many tokens of the reply, from the first on, have scores: all, unless the call was cancelled."""
        return int(self.provenance.get("explained", len(self.ids)))

    def tokens(self) -> "pandas.DataFrame":
        """A row for each token of the reply: its place, and how likely the model finds it, beside its rivals."""
        return tables.tokens(self)

    @property
    def hops(self) -> Count:
        """How far the scores are followed through the reply (see `through`); 0: not at all."""
        return 0 if self.followed is None else self.followed.hops

    @property
    def can_follow(self) -> bool:
        """Whether the reply's tokens have scores that can be followed (see `through`); methods that hide have none."""
        return "hidden" not in self.provenance

    @property
    def scores(self) -> Floats:
        """The score of each token of prompt and reply (columns) for each token of the reply (rows)."""
        return self.score_matrix.array

    @property
    def followed_matrix(self) -> ScoreMatrix:
        """The scores of the reply's tokens, followed through the reply where the answer is."""
        return self.score_matrix if self.followed is None else ScoreMatrix(self.followed.scores)

    @property
    def rows(self) -> Floats:
        """The same as one array."""
        return self.followed_matrix.array

    def hops_of(self, hops: Count | None) -> Count:
        """A number of hops; None stands for that of the answer."""
        return self.hops if hops is None else check_hops(hops)

    def through(self, hops: Count = ALL) -> Self:
        """The answer with its scores followed through the reply, which all that it shows and saves then rests on.

        The prompt gets the scores of each token, and those of the reply's earlier tokens by what these received; `hops`
        says how often. What the last hop leaves in the reply stays there. Methods that hide have no scores of a reply's
        tokens, and cannot be followed.
        """
        hops = check_hops(hops)
        if hops == self.hops:
            return self
        if hops == 0:
            return replace(self, followed=None)
        followed = follow_answer(self, self.scores, hops)
        if self.provenance.get("span") != SUMMED_HOPS or hops == ALL:  # shares, which must count in a sum as rows did
            sizes = np.abs(self.scores).sum(1, keepdims=True)
            followed = replace(followed, scores=sizes * followed.scores)
        return replace(self, followed=followed)

    def matrix(
        self, rows: str = "token", columns: Any = "token", earlier: bool = True, hops: Count | None = None
    ) -> "pandas.DataFrame":
        """Scores summed over parts of the reply (rows) and of the sources (columns).

        Rows are at the level of the token, word, sentence or reply; columns at any level of the sources. What belongs
        to the template has a column of its own, and so has the reply before each token, unless `earlier` is False.
        With `hops`, scores are followed through the reply (see `through`), and are shares of those of the row.
        """
        return tables.matrix(self, rows, columns, earlier, hops)

    def sources(self, k: int = 3, rows: str = "sentence", hops: Count | None = None) -> "pandas.DataFrame":
        """The `k` units of the prompt with the largest score for each part of the reply, with their shares.

        A share is of the sum of all positive scores of units. `drop` is by how much the log-probability of that part of
        the reply drops without the unit, where that has been run. With `hops`, scores are followed through the reply
        (see `through`).
        """
        return tables.sources(self, k, rows, hops)

    def of(self, span: Any, hops: Count | None = None, check: bool | int = False) -> SpanSaliency:
        """The explanation of a part of the reply as one target: a token, a slice, (start, end) characters, or a text.

        A text must occur once. For methods whose scores do not add up over tokens, the method runs again. The result's
        `every_layer` explains the same target at every layer. With `hops`, the scores are shares, followed through the
        reply (see `through`); the provenance says what share arrived at each hop. With `check`, also measure what
        hiding words of the prompt does to the part, in at most 20 forward passes (or `check=32`).
        """
        tokens, hops = self.tokens_of(span), self.hops_of(hops)
        target = None if self.running is None else self.running.sum_target(tokens)
        changes = self.provenance.get("change")
        change = sum(changes[token] for token in tokens) if changes and max(tokens) < self.explained else None
        saliency = self._saliency(self._span_scores(tokens), tokens, self._text_of(tokens), target, change, hops)
        return self._still_running().check(saliency, check) if check else saliency

    def _span_scores(self, tokens: Sequence[int]) -> Floats:
        """The scores of some tokens as one target, not followed through the reply."""
        if max(tokens) < self.explained and (self.linear or len(tokens) == 1):
            return self.score_matrix.total(tokens)
        return self._still_running().score_sum(tokens)

    def rather(self, token: Any, at: Any = None) -> SpanSaliency:
        """Explain why the reply has its token at index `at` rather than `token`: the difference of their numbers.

        The numbers are their logits or log-probabilities (see `nbsal.answer`). Without `at`, `token` is another whole
        reply to the same prompt: the scores are those of the prompt for this reply, minus those for the other.
        """
        running = self._still_running()
        if at is None:
            scores = running.score_rival_reply(token)
            return self._saliency(scores, self.reading.content, f"{self.text.strip()} - {token.strip()}", None)
        places = tokens_of(self.reading, at, "at")
        if len(places) != 1:
            message = f"at={at!r} covers {len(places)} tokens. Name one, by its number."
            raise InputError(message, argument="at", value=at)
        target = running.rival_target(places[0], token)
        scores = running.score_rival(places[0], target)
        return self._saliency(scores, places, f"{self._text_of(places)} - {target.label}", target, hops=self.hops)

    def tokens_of(self, span: Any) -> list[int]:
        """Indices of the reply's tokens that lie in `span`."""
        return tokens_of(self.reading, span, "span")

    def judge(
        self,
        unit: Any = None,
        k: Sequence[int] = (1, 2, 3),
        random: int = 20,
        subsets: int = 48,
        seed: int = 0,
        progress: Progress = True,
        cancel: Event | None = None,
    ) -> Judgement:
        """Test the scores of units: hide units, best first, and compare with random orders; see `Judgement`.

        `unit` is as in `nbsal.answer`, by default that of the answer. Subsets that were run before are not run again.
        """
        experiment = self._still_running().experiment
        if unit is not None:
            experiment = experiment.with_units(self.reading.units(unit))
        return judge(self, experiment, JudgeSettings(k, random, subsets, seed), progress, cancel)

    def lens(self, layers: Sequence[int] | None = None, k: int = 5) -> "pandas.DataFrame":
        """What each layer says in place of each token of the reply, decoded by the model's LM head.

        A row for each layer and token: the rank and the log-probability of the reply's token, and the `k` best ones.
        """
        return statistics.lens(self._still_running().explainer.subject, self.reading, layers, k)

    def speaks(self, layer: int, token: Any, tau: int = 10) -> "pandas.DataFrame":
        """The tokens of the prompt that a layer speaks of where it writes a token of the reply, likeliest first.

        As in decoding, the layer's hidden state there is read by the LM head; the prompt's `tau` likeliest tokens are
        listed with their probabilities and their positions.
        """
        (place, *_) = tokens_of(self.reading, token, "token")
        return statistics.layer_tokens(self._still_running().explainer.subject, self.reading, layer, place, tau)

    def sheet(self) -> Sheet:
        """The reply with its sources, shaded by what they add to it."""
        return self.picture().sheet()

    def _as_view(self, views: Any) -> Any:
        return views.Answers(self)

    @cached_property
    def facts(self) -> ReplyFacts:
        """The facts of which every sentence of the answer is made."""
        route = None if self.followed is None else partial(find_route, self.reading, self.scores, self.followed)
        return ReplyFacts(self.reading, self.followed_matrix, self.evidence, self.label, route, self.evidence_level)

    @property
    def evidence_level(self) -> Level:
        """What is left out to test the scores: sentences of the sources, or words."""
        return evidence_level(self.reading, self.provenance.get("unit"))

    def statement(self) -> Statement:
        return statement(self.facts.part(self.facts.opened()))

    def effects(self, span: Any = None) -> "pandas.DataFrame":
        """What leaving out sources does to the reply, or to a part of it: a row for each source, or sentence of it."""
        facts = self.facts.part(() if span is None else self.tokens_of(span))
        if not facts.checked:
            raise unchecked()
        return facts.to_frame()

    def check(self, progress: Progress = True, cancel: Event | None = None) -> Self:
        """The answer with its evidence: the same reply is scored without each source, and without all documents.

        If its scores are followed through the reply, it is also scored without each of its own words.
        """
        followed = self._checked_hops()
        if self.evidence is not None:
            return self if followed is self.followed else replace(self, followed=followed)
        units = self.reading.units(self.evidence_level)
        experiment = self._still_running().experiment.with_units(units, REMOVE)
        with Meter(len(subsets(experiment)), progress, cancel) as meter:
            return replace(self, evidence=measure(experiment, meter, self.evidence_level), followed=followed)

    def _checked_hops(self) -> Hops | None:
        """The followed scores with what hiding words of the reply does, by one pass for each word."""
        if self.followed is None or self.followed.without is not None or self.running is None:
            return self.followed
        return replace(self.followed, without=hide_words(self.running.experiment))

    def picture(self) -> AnswerPicture:
        """What a picture shows: the words of the reply that depend most on the sources, or all of it."""
        return self.picture_of(self.facts.opened())

    def picture_of(
        self, tokens: Sequence[int], scores: Floats | None = None, contrast: PartFacts | None = None
    ) -> AnswerPicture:
        """A picture of some tokens (none: all), or of one rather than its rival; `scores` if not the sum of rows."""
        if scores is not None and scores.ndim != 1:
            message = f"scores must have one number for each token, not {scores!r:.60}."
            raise InputError(message, argument="scores", value=scores)
        facts, chosen = self.facts, list(tokens) or self.reading.content
        total = self.followed_matrix.total(chosen) if scores is None else scores
        at = facts.rival_place(chosen) if contrast is None else chosen[0]
        return AnswerPicture(
            self.reading,
            total,
            contrast or facts.part(chosen, scores),
            PhraseMatrix.from_facts(facts) if contrast is None else PhraseMatrix.from_rival(contrast, chosen[0]),
            self.notes() + ([] if self.linear or len(chosen) == 1 or scores is not None else [SUMMED]),
            reply_likelihood(self),
            "" if at is None else part_text(self.reading, [at]),
            [] if at is None else rivals_of(self, at),
            frozenset(tokens),
            {} if contrast else facts.fallen(chosen),
        )

    def notes(self) -> list[str]:
        layer = self.provenance.get("parameters", {}).get("layer")
        place = f", layer {layer}" if isinstance(layer, int) else ""
        written = "reply written by the model" if self.provenance.get("reply") == "generated" else "given reply"
        model = model_name(str(self.provenance.get("model", "")))
        model += ", behind a server" if str(self.provenance.get("server", "")).startswith("http") else ""
        lines = [*filter(None, [model]), f"{self.label}{place}, {self.number}", written]
        if changes := self.provenance.get("change"):
            gaps, sizes = np.abs(self.provenance["gap"]).sum(), np.abs(changes).sum()
            share = gaps / sizes if sizes else 0.0
            warning, advice = ("▲ ", gap_advice(self.provenance)) if share > NOTABLE_GAP else ("", "")
            lines.append(f"{warning}scores miss the changes of the {self.number} by {percent(share)}{advice}")
        if self.hops != 0:
            lines.append(f"followed through the reply: {'all hops' if self.hops == ALL else plural(self.hops, 'hop')}")
        if self.explained < len(self.ids):
            lines.append(f"cancelled: the first {self.explained} of {plural(len(self.ids), 'token')} have scores")
        return lines

    def __repr__(self) -> str:
        return f"Answer({self.text!r:.60} | {self.statement().text()})"

    @classmethod
    def _load_json(cls, path: str | Path) -> Self:
        return cls(**answer_file.fields_from_json(path))

    def _check_fields(self) -> None:
        answer_file.check_fields(self)

    def unit_scores(self, units: Sequence[Unit] | None = None) -> Floats:
        """The scores of some units, by default those of the answer, [reply token, unit]."""
        return self.followed_matrix.sums([unit.tokens for unit in (self.units if units is None else units)])

    def _text_of(self, tokens: Sequence[int]) -> str:
        spans = [self.reading.reply_spans[token] for token in tokens]
        text = self.text[min(start for start, _ in spans) : max(end for _, end in spans)]
        return text or self.reading.reply_tokens[tokens[0]]

    def _saliency(
        self,
        scores: Floats,
        tokens: Sequence[int],
        target: str,
        span_target: Target | None,
        change: float | None = None,
        hops: Count = 0,
    ) -> SpanSaliency:
        end = min(len(scores), self.reading.start + max(tokens))
        probability = np.exp(self.statistics.logprob[list(tokens)].sum())
        settings = {name: value for name, value in self.provenance.items() if name not in OF_ONE_TARGET}
        if hops != 0:
            followed = follow_answer(self, scores[None], hops)
            scores, settings = followed.scores[0], settings | followed.provenance
        elif change is not None:
            settings |= {"change": change, "gap": float(scores.sum()) - change}
        return SpanSaliency(
            row=self.reading.up_to(end),
            target=target.strip(),
            prediction=self._text_of(tokens).strip(),
            probabilities=np.array([probability]),
            method=self.method,
            provenance=settings | {"target": target.strip(), "number": self.number},
            scores=np.array(scores[:end]),
            tie_breaker=np.array(scores[:end]),
            span_target=span_target,
            running=None if span_target is None else self.running,
        )

    def _still_running(self) -> ReplyMethod:
        if self.running is None:
            message = "This answer was loaded from a file, without its model. Call nbsal.answer again with reply=..."
            raise InputError(message, argument="span")
        return self.running
