"""Modules of plain torch that hold no transformer, with tokenizers that only encode to ids."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import nbsal
from nbsal.model.identity import model_identity
from nbsal.support.errors import ModelError
from tests import axioms
from tests.model.test_byte_tokenizer import SIZE, Bytes
from tests.raising import refuses, refuses_part

TEXT, WIDTH = "A warm and funny joy.", 16


class Guard(nn.Module):
    """A classifier as NanoGuard is written: attention takes no mask, and every block also reads the embeddings."""

    def __init__(self, blocks=2):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(SIZE, WIDTH)
        self.parts = nn.ModuleList([nn.Linear(WIDTH, size * WIDTH, bias=False) for size in (3, 1) * blocks])
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, input_ids, attention_mask=None):
        start = x = functional.rms_norm(self.table(input_ids), (WIDTH,))
        for first, second in zip(self.parts[::2], self.parts[1::2], strict=True):
            query, key, value = (part.unsqueeze(1) for part in first(x + 0.5 * start).chunk(3, -1))
            x = x + functional.scaled_dot_product_attention(query, key, value).squeeze(1)
            x = x + functional.relu(second(functional.rms_norm(x, (WIDTH,)))).square()
        mask = attention_mask.unsqueeze(-1).float()
        return self.head((x * mask).sum(1) / mask.sum(1).clamp(min=1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layer, self.head = nn.Embedding(SIZE, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, ids):
        return self.head(self.layer(self.table(ids))[1][0])


def loaded(module, before=1, **options):
    return nbsal.load(module.eval(), tokenizer=Bytes(before), **options)


def padded(model, inputs):
    rest = (0, 48 - inputs["input_ids"].shape[1])
    return model(functional.pad(inputs["input_ids"], rest), functional.pad(inputs["attention_mask"], rest))


@pytest.mark.parametrize("read", [None, padded], ids=["as it is", "padded"])
def test_logits_are_those_of_the_module(read):
    module = Guard()
    subject = loaded(module, labels=["safe", "injection"], read=read)
    ids = torch.tensor([Bytes(1).encode(TEXT)])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    truth = module(**inputs) if read is None else read(module, inputs)
    assert torch.equal(axioms.logits(subject, [TEXT]), truth)
    assert (subject.task, subject.labels) == ("sequence", ["safe", "injection"]) and subject.unbatchable
    assert not module.table._forward_hooks


def test_texts_run_alone_since_the_padding_of_a_batch_would_be_read():
    subject, texts = loaded(Guard()), [TEXT, "A dull bore."]
    together = nbsal.Explainer(subject, "attn-lrp").map(texts, progress=False)
    for saliency, text in zip(together, texts, strict=True):
        assert np.array_equal(saliency.scores, nbsal.Explainer(subject, "attn-lrp")(text).scores)


@pytest.mark.parametrize("read", [None, padded], ids=["as it is", "padded"])
def test_relevance_sums_to_the_output(read):
    subject = loaded(Guard(), read=read)
    explain = nbsal.Explainer(subject)
    saliency = explain(TEXT, target=1)
    assert explain.method.name == "attn-lrp" and len(saliency.scores) == len(subject.encode(TEXT)[0])
    start = axioms.logits(subject, [TEXT])[0, 1]
    if read is None:  # the padding has its part, too
        assert saliency.scores.sum() + saliency.provenance["absorbed"] == pytest.approx(float(start), abs=1e-5)
    integrated = nbsal.Explainer(subject, "integrated")(TEXT, target=1)
    assert np.isfinite(integrated.scores).all() and integrated.scores.any()


def test_hidden_tokens_are_left_out_since_a_mask_hides_nothing():
    module = Guard()
    subject = loaded(module)
    scores = nbsal.Explainer(subject, "occlusion")(TEXT, target=0).scores
    ids = torch.tensor([Bytes(1).encode(TEXT)])

    def logit(ids):
        return module(ids, torch.ones_like(ids))[0, 0].item()

    truth = [logit(ids) - logit(torch.cat([ids[:, :i], ids[:, i + 1 :]], 1)) for i in range(1, ids.shape[1])]
    np.testing.assert_allclose(scores[1:], truth, atol=1e-5)


def test_the_first_token_can_be_left_out():
    module = Guard()
    scores = nbsal.Explainer(loaded(module, before=0), "occlusion")(TEXT, target=0).scores
    ids = torch.tensor([Bytes().encode(TEXT)])
    ones = torch.ones_like(ids)
    truth = module(ids, ones)[0, 0] - module(ids[:, 1:], ones[:, 1:])[0, 0]
    assert scores[0] == pytest.approx(truth.item(), abs=1e-5)


def test_a_module_that_takes_ids_alone_and_has_an_operation_without_a_rule():
    subject = loaded(Recurrent())
    assert torch.equal(axioms.logits(subject, [TEXT]), Recurrent()(torch.tensor([Bytes(1).encode(TEXT)])))
    assert nbsal.Explainer(subject).method.name == "integrated"
    with pytest.raises(ModelError):
        nbsal.Explainer(subject, "attn-lrp")(TEXT)
    for method in ("lrp", "rollout"):
        with refuses_part("attention"):
            nbsal.Explainer(subject, method)


def test_copies_and_identities():
    subject = loaded(Guard())
    scores = nbsal.Explainer(subject)(TEXT).scores
    for other in (copy.deepcopy(subject), pickle.loads(pickle.dumps(subject))):
        assert np.array_equal(nbsal.Explainer(other)(TEXT).scores, scores)
        assert model_identity(other) == model_identity(subject)
    with torch.no_grad():
        subject.model.module.module.table.weight.mul_(-1)
    assert model_identity(other) != model_identity(subject)


def test_what_cannot_be_read_is_refused():
    with refuses("model"):
        nbsal.load(Guard())
    with refuses_part("embeddings"):
        loaded(nn.Linear(2, 2))
    with refuses_part("embeddings"):  # what begins elsewhere than the text has other tokens at its places
        loaded(Guard(), read=lambda model, inputs: padded(model, inputs | {"input_ids": inputs["input_ids"] + 1}))
    subject = loaded(Guard(), read=padded)
    with refuses_part("embeddings"):  # longer than what `read` pads to
        subject.logits(subject.inputs(subject.encode(TEXT * 3)))
