"""Explainers with fixed scores, and a model whose predictions follow from the words of a text."""

from dataclasses import dataclass, field

import torch

import nbsal
from nbsal.methods.base import Method
from nbsal.methods.cost import Cost
from tests import bag


@dataclass(frozen=True)
class FixedScores(Method):
    """A method with a fixed score for each token text, 0 for all others."""

    name = "fixed"
    family = "test"
    needs = frozenset()
    paper = "none"
    cost = Cost(0)
    promise = frozenset()
    by_token: dict = field(default_factory=dict, hash=False)

    def scores(self, trace):
        scores = torch.zeros(len(trace.encoded), trace.encoded.longest, dtype=torch.float64)
        for b, row in enumerate(trace.encoded):
            scores[b, : len(row)] = torch.tensor([float(self.by_token.get(token, 0.0)) for token in row.tokens])
        return scores


def fixed_scores(subject, **by_token):
    """An explainer with these scores."""
    return nbsal.Explainer(subject, FixedScores(by_token))


def word_sum_subject(weights):
    """A bag of words that predicts its second class if the weights of the tokens sum to more than 0, else the first.

    The first class has the logit 0 and the second the sum. Words that are single tokens: a, and, the, end.
    """
    subject = bag.subject()
    model = subject.model
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([0.0, 0.0, -1e9]))
        model.classifier.weight[1, 0] = 1
        model.bag.embeddings.weight.zero_()
        for token, weight in weights.items():
            model.bag.embeddings.weight[subject.tokenizer.convert_tokens_to_ids(token), 0] = weight
    return subject
