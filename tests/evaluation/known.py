"""Explanations with scores that a test chooses, and a model whose decisions follow from the tokens that are kept."""

from dataclasses import dataclass, field

import torch

import nbsal
from nbsal.methods.base import Method
from nbsal.methods.cost import Cost
from tests import bag


@dataclass(frozen=True)
class Chosen(Method):
    """Scores by token text, 0 for any other."""

    name = "chosen"
    family = "test"
    needs = frozenset()
    paper = "none"
    cost = Cost(0)
    promise = frozenset()
    by_token: dict = field(default_factory=dict, hash=False)

    def scores(self, trace):
        found = torch.zeros(len(trace.encoded), trace.encoded.longest, dtype=torch.float64)
        for b, row in enumerate(trace.encoded):
            found[b, : len(row)] = torch.tensor([float(self.by_token.get(token, 0.0)) for token in row.tokens])
        return found


def scoring(subject, **by_token):
    """An explainer with those scores."""
    return nbsal.Explainer(subject, Chosen(by_token))


def counting(worth):
    """A bag that decides for its second class where the worths of the tokens add up to more than 0, else for its first.

    The first class has the logit 0 and the second that sum. Of the tests' words these are tokens: a, and, the, end.
    """
    subject = bag.subject()
    model = subject.model
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([0.0, 0.0, -1e9]))
        model.classifier.weight[1, 0] = 1
        model.bag.embeddings.weight.zero_()
        for token, value in worth.items():
            model.bag.embeddings.weight[subject.tokenizer.convert_tokens_to_ids(token), 0] = value
    return subject
