"""An answer's model and method, for what its scores cannot give: spans of methods that do not sum, and rivals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.answers.hiding import Hiding
from nbsal.answers.reading import Reading, Unit, with_reply
from nbsal.answers.rows import Explains, Predictions
from nbsal.errors import InputError
from nbsal.methods.perturbation import Perturbation, scores_by_position
from nbsal.model.target import Target
from nbsal.model.targets import token_id
from nbsal.model.tokens import Encoded

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Running:
    """What explains one reply."""

    explainer: Explains
    reading: Reading
    number: str
    units: Sequence[Unit]
    hiding: Hiding

    def score_sum(self, tokens: Sequence[int]) -> Floats:
        """The scores of the sum of several tokens' numbers, over prompt and reply."""
        predictions = Predictions(self.reading, self.number)
        terms = tuple(term for token in tokens for term in predictions.target(token).terms)
        return self._score(Target("", terms, self.number), self.reading.start + max(tokens))

    def score_rival(self, token: int, rival: Any) -> tuple[Floats, str]:
        """The scores of the difference between a token's number and that of another in its place, and its name."""
        index = token_id(self.explainer.subject, rival, self.explainer.subject.model.config.vocab_size)
        if index == self.reading.reply_ids[token]:
            message = f"The reply itself has {rival!r} there. Name another token."
            raise InputError(message, argument="token", value=rival)
        name = self.explainer.subject.tokenizer.decode([index]).strip()
        position, end = self.reading.position(token), self.reading.start + token
        if isinstance(self.explainer.method, Perturbation):
            return self._hide_rival(self.explainer.method, token, index), name
        terms = (((position, self.reading.reply_ids[token]), 1.0), ((position, index), -1.0))
        return self._score(Target("", terms, self.number), end), name

    def _score(self, target: Target, end: int) -> Floats:
        """The scores of a target in the text up to a position."""
        row = self.reading.up_to(end)
        encoded = Encoded([row], self.explainer.subject.text_encoder.pad_id)
        (saliency,) = self.explainer.encoded(encoded, [target])
        scores = np.zeros(len(self.reading.row))
        scores[: len(row)] = saliency.scores
        return scores

    def _hide_rival(self, method: Perturbation, token: int, rival: int) -> Floats:
        """The difference by the same subsets of units, with the rival at the end of a shorter reply."""
        ids = (*self.reading.reply_ids[:token], rival)
        other = with_reply(self.explainer.subject, self.reading.prompt, ids)
        parts = [unit.tokens for unit in self.units]
        table = method.coalitions(self.reading.row, parts)
        rivals = Hiding(self.explainer.subject, other, self.units, self.number).values(table)
        values = self.hiding.values(table)[:, token] - rivals[:, -1]
        return scores_by_position(method.unit_scores(table, values), parts, len(self.reading.row))
