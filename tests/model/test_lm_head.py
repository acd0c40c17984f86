"""The LM head gives the probabilities of the stock model on every architecture, in chunks of the vocabulary."""

import pytest
import torch
import transformers

import nbsal
from nbsal.model import lm_head
from nbsal.support.errors import LanguageHeadError
from nbsal.testing import tiny_models
from tests import axioms, zoo
from tests.cases import cases
from tests.raising import refuses_part


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Process even tiny vocabularies in several chunks."""
    monkeypatch.setattr(lm_head, "CHUNK", 16)
    monkeypatch.setattr(lm_head, "ROWS", 5)


def test_checkpoints_without_an_lm_head_are_refused(tmp_path):
    transformers.T5Config(vocab_size=60).save_pretrained(tmp_path)
    with refuses_part("lm_head", LanguageHeadError):
        lm_head.load(str(tmp_path))


STATES = {"hidden_size": 32, "num_hidden_layers": 3, "state_size": 4, "n_groups": 1, "chunk_size": 8}
EXPERTS = zoo.GROUPED | {"num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
OBSERVED = {  # heads that cap or scale their logits, that come after a second projection, or that need attention caches
    "gpt2": zoo.DECODERS["gpt2"],
    **{name: zoo.OTHER_DECODERS[name] for name in "gemma3 mixtral qwen3-moe opt gpt-oss mamba cohere bloom".split()},
    "gemma2": ("Gemma2Config", zoo.GROUPED | {"final_logit_softcapping": 0.1}, "pieces"),
    "qwen2-moe": ("Qwen2MoeConfig", EXPERTS, "bytes"),
    "olmoe": ("OlmoeConfig", zoo.SIZES | {"num_experts": 4, "num_experts_per_tok": 2}, "bytes"),
    "opt with a projection": ("OPTConfig", zoo.OPT | {"word_embed_proj_dim": 8}, "bytes"),
    "mamba2": ("Mamba2Config", STATES | {"num_heads": 8, "head_dim": 8}, "bytes"),
    "granite": ("GraniteConfig", zoo.GROUPED | {"logits_scaling": 3.0}, "bytes"),
    "biogpt": ("BioGptConfig", zoo.SIZES, "bytes"),
}


@cases("kind", OBSERVED)
def test_the_head_of_other_causal_models(kind):
    """The LM head equals the model's logits at the last layer, scale and cap included, and is built at first use."""
    model = tiny_models.build(OBSERVED[kind], "causal").float()
    subject = nbsal.load(model)
    assert "_own_lm_head" not in vars(subject) and not any(module._forward_hooks for module in model.modules())
    encoded = subject.encode_ids([[5, 9, 12, 33, 7, 8]])
    trace = nbsal.trace.record(subject, encoded, needs={"hidden"})
    head = subject.lm_head
    ours = head.logits(head.features(trace.hidden[subject.depth][0]), torch.arange(head.vocab_size))
    assert axioms.relative(ours, trace.logits[0]) < 1e-5
    hidden = trace.hidden[subject.depth][0]
    truth = trace.logits[0].softmax(-1)
    assert axioms.relative(head.probabilities(hidden, torch.arange(head.vocab_size)), truth) < 1e-5
    assert not any(module._forward_hooks for module in model.modules())
    assert nbsal.Explainer(subject, "decoded-gradcam").ids([5, 9, 12, 33]).scores.shape == (4,)


def test_a_head_that_reads_something_else_is_refused():
    config = transformers.XLNetConfig(vocab_size=60, d_model=32, n_layer=2, n_head=4, d_inner=48)
    with pytest.raises(LanguageHeadError, match="XLNetLMHeadModel") as caught:
        lm_head.from_model(transformers.XLNetLMHeadModel(config).eval(), "its own LM head")
    assert caught.value.__cause__ is not None


MODELS = [
    ("gpt2", "sequence"),
    ("llama", "sequence"),
    ("modernbert", "sequence"),
    ("bert", "sequence"),
    ("gpt2", "causal"),
]


@cases("architecture, head", MODELS)
def test_a_head_shares_the_weights_of_its_model(architecture, head):
    """Embeddings, final norm and bias are always the current ones, in every precision."""
    model = zoo.model(architecture, head).train()
    settings = {"tokenizer": zoo.tokenizer(zoo.ARCHITECTURES[architecture][2])}
    settings |= {} if head == "causal" else {"lm": "tied"}
    subject = nbsal.load(model, **settings)
    hidden, columns = torch.randn(6, subject.width, generator=torch.Generator().manual_seed(0)), torch.tensor([4, 9])
    before = subject.lm_head.probabilities(hidden, columns)
    axioms.change_weights(model)
    after = subject.lm_head.probabilities(hidden, columns)
    assert torch.equal(after, nbsal.load(model, **settings).lm_head.probabilities(hidden, columns))
    assert axioms.relative(after, before) > 0.01 and model.training
    axioms.change_weights(model.double())
    after = subject.lm_head.probabilities(hidden.double(), columns)
    assert torch.equal(after, nbsal.load(model, **settings).lm_head.probabilities(hidden.double(), columns))
