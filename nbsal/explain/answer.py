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
from nbsal.explain.answer_page import SUMMED, AnswerPicture, notes_of, reply_likelihood, rivals_of
from nbsal.explain.answer_spans import explain_part, explain_rival, hidden_units
from nbsal.explain.citations.cited import (
    WRITTEN,
    CitedReply,
    citations_frame,
    measure_citations,
    most_passes,
    quotes_frame,
)
from nbsal.explain.citations.fields import (
    ExtractedReply,
    FieldSource,
    fields_frame,
    measure_fields,
    most_passes_of_fields,
)
from nbsal.explain.citations.sourced import SourcedRows, citation_rows, field_rows
from nbsal.explain.citations.subsets import DocumentSubsets
from nbsal.explain.explained import Explained, unchecked
from nbsal.explain.judgement import Judgement, JudgeSettings, judge
from nbsal.explain.prompt.reading import PromptWithReply, TokenStatistics, Unit
from nbsal.explain.prompt.reply_span import tokens_of
from nbsal.explain.scoring.hops import ALL, SUMMED_HOPS, Count, Hops, check_hops, follow_answer
from nbsal.explain.scoring.lazy import statistics
from nbsal.explain.scoring.running import ReplyMethod, SpanSaliency
from nbsal.explain.scoring.score_matrix import ScoreMatrix
from nbsal.explain.sentences.evidence import Evidence, Level, evidence_level, measure, subsets
from nbsal.explain.sentences.hop_words import find_route, hide_words
from nbsal.explain.sentences.phrases import PhraseMatrix
from nbsal.explain.sentences.reply_facts import PartFacts, ReplyFacts, part_text
from nbsal.explain.sentences.reply_sentences import statement
from nbsal.explain.sentences.statement import Statement
from nbsal.render.sheet import Sheet
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked


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
    subsets: DocumentSubsets | None = None  # the same for documents, each alone and several together
    field_sources: tuple[FieldSource, ...] | None = None  # where the values of a JSON reply are from
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
        return explain_part(self, span, hops, check)

    def rather(self, token: Any, at: Any = None) -> SpanSaliency:
        """Explain why the reply has its token at index `at` rather than `token`: the difference of their numbers.

        The numbers are their logits or log-probabilities (see `nbsal.answer`). Without `at`, `token` is another whole
        reply to the same prompt: the scores are those of the prompt for this reply, minus those for the other.
        """
        return explain_rival(self, token, at)

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
        experiment = self.still_running().experiment
        if unit is not None:
            experiment = experiment.with_units(self.reading.units(unit))
        return judge(self, experiment, JudgeSettings(k, random, subsets, seed), progress, cancel)

    def lens(self, layers: Sequence[int] | None = None, k: int = 5) -> "pandas.DataFrame":
        """What each layer says in place of each token of the reply, decoded by the model's LM head.

        A row for each layer and token: the rank and the log-probability of the reply's token, and the `k` best ones.
        """
        return statistics.lens(self.still_running().explainer.subject, self.reading, layers, k)

    def speaks(self, layer: int, token: Any, tau: int = 10) -> "pandas.DataFrame":
        """The tokens of the prompt that a layer speaks of where it writes a token of the reply, likeliest first.

        As in decoding, the layer's hidden state there is read by the LM head; the prompt's `tau` likeliest tokens are
        listed with their probabilities and their positions.
        """
        (place, *_) = tokens_of(self.reading, token, "token")
        return statistics.layer_tokens(self.still_running().explainer.subject, self.reading, layer, place, tau)

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

    def check(self, progress: Progress = True, cancel: Event | None = None, ways: bool = False) -> Self:
        """The answer with its evidence: the same reply is scored without each source, and without all documents.

        With followed scores, also without each word of the reply; with `ways`, as by check="ways" of `nbsal.answer`.
        """
        followed = self._checked_hops()
        if self.evidence is not None and (self.evidence.ways or not ways):
            return self if followed is self.followed else replace(self, followed=followed)
        units = self.reading.units(self.evidence_level)
        experiment = self.still_running().experiment.with_units(units, REMOVE)
        if ways:
            from nbsal.explain.reply_ways import measure_in_ways as in_ways  # imports torch

            return replace(self, evidence=in_ways(experiment, self.evidence_level, progress, cancel), followed=followed)
        with Meter(len(subsets(experiment)), progress, cancel) as meter:
            return replace(self, evidence=measure(experiment, meter, self.evidence_level), followed=followed)

    def citations(
        self, form: str | None = None, progress: Progress = False, cancel: Event | None = None
    ) -> "pandas.DataFrame":
        """Whether the reply uses what it cites: a row for each citation, with the statement that ends there.

        Marks are [1], [1, 3], [doc 2], (Title), <cite>, 【1】 and footnote numbers, or what `form` matches, a regular
        expression whose first group has the numbers. `cites` are those of the documents, from 1. `drop` is by how much
        the statement's log-probability falls without them, `only` by how much it rises with them alone. `says_so` is
        whether they have the statement's words, or make them likelier than other documents do. The `verdict` is
        "supported"; "decoration" (they say so, but it would stand without them); "elsewhere" (from the document
        `used_instead`); "not from the documents", or "unclear". `quote_exact` is whether they have its quotes, letter
        by letter.
        """
        return citations_frame(self.cited(form), self.check_citations(form, progress, cancel).subsets)

    def quotes(self) -> "pandas.DataFrame":
        """A row for each quote in the reply: where it stands, there and in the document that has it most exactly."""
        return quotes_frame(self.cited())

    def cited(self, form: str | None = None) -> CitedReply:
        """The reply with its citations."""
        return CitedReply(self.reading, str(self.provenance.get(WRITTEN, self.text)), form)

    @cached_property
    def sourced(self) -> SourcedRows:
        """The citations and fields as views and copies show them, as far as they are checked."""
        statements = citation_rows(self.cited(), self.subsets)
        fields = field_rows(fields_frame(self.field_sources), self.reading.prompt) if self.field_sources else []
        return SourcedRows(statements, fields)

    def check_citations(self, form: str | None = None, progress: Progress = True, cancel: Event | None = None) -> Self:
        """The answer with what `citations` needs: the reply scored with each document alone, and without groups."""
        reply = self.cited(form)
        if not (most := most_passes(reply)):
            return self
        if self.running is None and self.subsets is not None:
            return self
        with Meter(most, progress, cancel) as meter:
            subsets = measure_citations(reply, self.still_running().experiment, self.subsets, meter)
            meter.reach(most)  # there is nothing to run for statements that one document alone gives
            return replace(self, subsets=subsets)

    def fields(self, progress: Progress = False, cancel: Event | None = None) -> "pandas.DataFrame":
        """Where the values of a JSON reply (or of lines "key: value") are from: a row for each.

        The `document` is numbered from 1; `start` and `end` are the characters of it that write the value or, if no
        document writes it, the sentence or line without which it falls most. These are hidden together with all copies
        in all documents: `drop` is by how much the value's log-probability falls then, in nats. The `verdict` is "from
        the documents"; "not from the documents" (none gives it, or it is likely without them), or "unclear". Equal
        values are looked up by the words of their keys; a repeated one is judged together with its first mention.
        """
        return fields_frame(self.with_fields(progress, cancel).field_sources or ())

    def with_fields(self, progress: Progress = True, cancel: Event | None = None) -> Self:
        """The answer with what `fields` shows, which a file then holds: the reply scored with parts left out."""
        reply = ExtractedReply(self.reading)
        if self.field_sources is not None or not (most := most_passes_of_fields(reply)):
            return self
        with Meter(most, progress, cancel) as meter:
            experiment = self.still_running().experiment
            subsets, sources = measure_fields(reply, experiment, self.subsets, meter)
            meter.reach(most)  # values that nothing gives have no place to hide
        return replace(self, subsets=subsets, field_sources=sources)

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
            sourced=self.sourced,
            hidden_units=hidden_units(self),
        )

    def notes(self) -> list[str]:
        return notes_of(self)

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

    def still_running(self) -> ReplyMethod:
        """The model that explains; an error for an answer that a file holds."""
        if self.running is None:
            message = "This answer was loaded from a file, without its model. Call nbsal.answer again with reply=..."
            raise InputError(message, argument="span")
        return self.running
