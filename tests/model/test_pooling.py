"""The positions that a sequence head reads are measured, for stock heads and for heads of the user."""

import numpy as np
import pytest
import torch
import transformers
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput

import nbsal
from nbsal.model import pooling
from nbsal.support.errors import ModelError
from tests import axioms, zoo
from tests.cases import cases

TEXT, TEXTS = "The film is a warm and funny joy.", ["The film is a warm and funny joy.", "A dull bore."]
ROW_METHODS = ("raw-attention", "rollout", "gae", "partial-lrp", "transformer-attribution", "alti", "ifr")


def pool_first(states, mask):
    return states[:, 0]


def pool_mean(states, mask):
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def pool_all(states, mask):
    return states.mean(1)


def pool_max(states, mask):
    return states.masked_fill(~mask[..., None].bool(), -1e9).amax(1)


def pool_weighted(states, mask):
    weights = mask * torch.arange(1, mask.shape[1] + 1).to(states)
    return (states * weights[..., None]).sum(1) / weights.sum(1, keepdim=True)


def pool_content(states, mask):
    return pool_mean(states[:, 1:], mask[:, 1:])


def pool_attention(states, mask):
    weights = states[..., :1].masked_fill(~mask[..., None].bool(), -1e9).softmax(1)
    return (states * weights).sum(1)


KINDS = {
    pool_first: "first", pool_mean: "mean", pool_all: "mean", pool_max: "max", pool_weighted: "weighted",
    pool_content: "weighted", pool_attention: "mixed",
}  # fmt: skip


class OwnForSequenceClassification(transformers.BertPreTrainedModel):
    """A classifier of a user, which transformers knows nothing of."""

    pool = staticmethod(pool_mean)
    join = False  # whether the head adds the layer below the last one

    def __init__(self, config):
        super().__init__(config)
        self.bert = transformers.BertModel(config, add_pooling_layer=False)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, **options):
        options = {"output_hidden_states": True, "return_dict": True}
        output = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids, **options)
        states = output.last_hidden_state + (output.hidden_states[-2] if self.join else 0)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return SequenceClassifierOutput(logits=self.classifier(type(self).pool(states, mask.to(states))))


def own(pool, join=False):
    """A subject with a head of the user's own that pools like that."""
    torch.manual_seed(0)
    name = "OwnForSequenceClassification"
    model = type(name, (OwnForSequenceClassification,), {"pool": staticmethod(pool), "join": join})
    return nbsal.load(model(zoo.config("bert", num_labels=3)).double().eval(), tokenizer=zoo.tokenizer("wordpiece"))


@cases("pool", KINDS)
def test_own_heads_are_measured(pool):
    subject = own(pool)
    assert subject.pooling == KINDS[pool]
    assert subject.double.pooling == KINDS[pool]
    assert subject.unbatchable == (pool is pool_all)  # padding would change its output


@cases("architecture", zoo.ARCHITECTURES)
def test_stock_heads_are_measured(load, architecture):
    subject = load(architecture, dtype="float32")
    measured = pooling.probe(subject, "no answer")
    assert measured == pooling.Pooling("last" if architecture in zoo.DECODERS else "first")


@cases("pool", [pool_mean, pool_weighted, pool_content, pool_attention])
def test_raw_attention_follows_the_weights_of_the_head(pool):
    subject = own(pool)
    saliency = nbsal.Explainer(subject, "raw-attention")(TEXT)
    encoded = subject.encode(TEXT)
    attention = nbsal.trace.record(subject, encoded, needs={"attention"}).attention[subject.depth - 1][0].mean(0)
    size = len(encoded[0])
    weights = {
        pool_mean: np.full(size, 1 / size),
        pool_weighted: np.arange(1, size + 1) / np.arange(1, size + 1).sum(),
        pool_content: np.append(0, np.full(size - 1, 1 / (size - 1))),
    }.get(pool, pooling.position_weights(subject, encoded)[0].numpy())
    assert weights.sum() == pytest.approx(1)
    assert axioms.relative(torch.from_numpy(saliency.scores), torch.from_numpy(weights) @ attention) < 1e-10


@pytest.mark.parametrize("pool", [pool_mean, pool_weighted, pool_max, pool_attention, pool_all])
@pytest.mark.parametrize("method", ["raw-attention", "rollout", "gae"])
def test_a_batch_equals_its_single_texts(pool, method):
    explain = nbsal.Explainer(own(pool), method)
    for together, text in zip(explain.map(TEXTS, progress=False), TEXTS, strict=True):
        assert np.abs(together.scores - explain(text).scores).max() < 1e-10


@cases("method", ROW_METHODS)
def test_a_head_that_reads_several_layers_is_refused_by_methods_that_follow_the_last(method):
    subject = own(pool_first, join=True)
    assert not subject.probed_pooling.last_layer_only
    with pytest.raises(ModelError) as caught:
        nbsal.Explainer(subject, method)(TEXT)
    assert caught.value.part
    assert nbsal.Explainer(subject, "gradcam", layer=1)(TEXT).scores.any()
