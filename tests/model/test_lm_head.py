"""The LM head gives the probabilities of the stock model on every architecture, in chunks of the vocabulary."""

import pytest
import torch
import transformers

import nbsal
from nbsal.errors import LanguageHeadError
from nbsal.model import lm_head
from tests import axioms, replicas, zoo


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Process even tiny vocabularies in several chunks."""
    monkeypatch.setattr(lm_head, "CHUNK", 16)
    monkeypatch.setattr(lm_head, "ROWS", 5)


@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_chunked_probabilities_are_the_stock_softmax(architecture):
    lm = zoo.model(architecture, zoo.lm_head(architecture)).double()
    head = lm_head.from_model(lm, "a model")
    hidden = torch.randn(12, lm.config.hidden_size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        truth = replicas.HEADS[architecture](lm, hidden[None])[0].softmax(-1)
    columns = torch.tensor([0, 7, 41, head.vocab_size - 1])
    assert axioms.relative(head.probabilities(hidden, columns), truth[:, columns]) < 1e-12


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "modernbert"])
def test_decoding_the_last_block_gives_the_models_logits(architecture):
    """This needs the final norm, which is detected by comparing outputs."""
    lm = zoo.model(architecture, zoo.lm_head(architecture)).double()
    head = lm_head.from_model(lm, "a model")
    outputs = []
    blocks = lm.base_model.encoder.layer if architecture == "bert" else getattr(lm.base_model, "h", None)
    blocks = blocks if blocks is not None else lm.base_model.layers
    handle = blocks[-1].register_forward_hook(lambda module, args, output: outputs.append(output))
    with torch.no_grad():
        truth = lm(input_ids=torch.tensor([[2, 9, 30, 3]])).logits[0]
    handle.remove()
    hidden = outputs[0] if isinstance(outputs[0], torch.Tensor) else outputs[0][0]
    ours = head.logits(head.features(hidden[0].detach()), torch.arange(head.vocab_size))
    assert axioms.relative(ours, truth) < 1e-12


def test_neither_body_nor_head_is_copied_or_changed():
    lm = zoo.model("bert", "masked")
    before = {name: value.clone() for name, value in lm.state_dict().items()}
    head = lm_head.from_model(lm, "a model")
    assert head.weight.data_ptr() == lm.get_output_embeddings().weight.data_ptr()
    assert sum(p.numel() for p in head.transform.parameters()) < 0.3 * sum(p.numel() for p in lm.parameters())
    assert all(torch.equal(value, before[name]) for name, value in lm.state_dict().items())


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "llama"])
def test_training_flags_are_kept(architecture):
    """Every module keeps its own training flag."""
    lm = zoo.model(architecture, zoo.lm_head(architecture)).train()
    lm.base_model.eval()
    before = {name: module.training for name, module in lm.named_modules()}
    lm_head.from_model(lm, "a model")
    assert {name: module.training for name, module in lm.named_modules()} == before


def test_checkpoints_without_an_lm_head_are_refused(tmp_path):
    transformers.T5Config(vocab_size=60).save_pretrained(tmp_path)
    with pytest.raises(LanguageHeadError) as caught:
        lm_head.load(str(tmp_path))
    assert caught.value.part == "lm_head"


def test_a_head_that_does_not_run_separately_is_refused():
    sizes = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}
    lm = transformers.MambaForCausalLM(transformers.MambaConfig(**sizes)).eval()
    with pytest.raises(LanguageHeadError, match="MambaForCausalLM") as caught:
        lm_head.from_model(lm, "its own LM head")
    assert caught.value.__cause__ is not None


def test_a_head_that_caps_its_logits_is_refused():
    config = transformers.Gemma2Config(
        vocab_size=60,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        final_logit_softcapping=0.1,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    with pytest.raises(LanguageHeadError, match="Gemma2ForCausalLM"):
        lm_head.from_model(transformers.Gemma2ForCausalLM(config).eval(), "its own LM head")


MODELS = [
    ("gpt2", "sequence"),
    ("llama", "sequence"),
    ("modernbert", "sequence"),
    ("bert", "sequence"),
    ("gpt2", "causal"),
]


@pytest.mark.parametrize(("architecture", "head"), MODELS)
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
