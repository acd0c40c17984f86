"""LanguageHead: the stock head's own probabilities, whatever the architecture, without ever forming them all."""

import pytest
import torch
import transformers

import nbsal
from nbsal.errors import LanguageHeadError
from nbsal.model import lm_head
from tests import axioms, replicas, zoo


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Tiny vocabularies, too, are to be visited in several chunks."""
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
def test_the_models_own_logits_come_back_from_its_last_hidden_state(architecture):
    """The final norm is found by what it does: decoding the last block's output gives what the model says."""
    lm = zoo.model(architecture, zoo.lm_head(architecture)).double()
    head = lm_head.from_model(lm, "a model")
    heard = []
    blocks = lm.base_model.encoder.layer if architecture == "bert" else getattr(lm.base_model, "h", None)
    blocks = blocks if blocks is not None else lm.base_model.layers
    handle = blocks[-1].register_forward_hook(lambda module, args, output: heard.append(output))
    with torch.no_grad():
        truth = lm(input_ids=torch.tensor([[2, 9, 30, 3]])).logits[0]
    handle.remove()
    hidden = heard[0] if isinstance(heard[0], torch.Tensor) else heard[0][0]
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
def test_a_model_in_training_stays_in_training(architecture):
    """So does each of its modules, the last linear map among them; one that was in evaluation stays there too."""
    lm = zoo.model(architecture, zoo.lm_head(architecture)).train()
    lm.base_model.eval()
    before = {name: module.training for name, module in lm.named_modules()}
    lm_head.from_model(lm, "a model")
    assert {name: module.training for name, module in lm.named_modules()} == before


def test_checkpoints_of_other_kinds_have_no_head(tmp_path):
    transformers.T5Config(vocab_size=60).save_pretrained(tmp_path)
    with pytest.raises(LanguageHeadError, match=r"\(t5\) has no LM head in transformers"):
        lm_head.load(str(tmp_path))


def test_a_head_that_does_not_run_alone_is_refused():
    sizes = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}
    lm = transformers.MambaForCausalLM(transformers.MambaConfig(**sizes)).eval()
    with pytest.raises(LanguageHeadError, match=r"^The LM head of MambaForCausalLM is not one nbsal knows"):
        lm_head.from_model(lm, "its own LM head")


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
    with pytest.raises(
        LanguageHeadError, match=r"^The LM head of Gemma2ForCausalLM changes its logits after its last linear map"
    ):
        lm_head.from_model(transformers.Gemma2ForCausalLM(config).eval(), "its own LM head")


OWN = [
    ("gpt2", "sequence"),
    ("llama", "sequence"),
    ("modernbert", "sequence"),
    ("bert", "sequence"),
    ("gpt2", "causal"),
]


@pytest.mark.parametrize(("architecture", "head"), OWN)
def test_a_models_own_head_learns_with_it(architecture, head):
    """Embeddings, final norm and bias are those of the model as it is now, in whatever precision."""
    model = zoo.model(architecture, head).train()
    settings = {"tokenizer": zoo.tokenizer(zoo.ARCHITECTURES[architecture][2])}
    settings |= {} if head == "causal" else {"lm": "tied"}
    subject = nbsal.load(model, **settings)
    hidden, columns = torch.randn(6, subject.width, generator=torch.Generator().manual_seed(0)), torch.tensor([4, 9])
    before = subject.lm_head.probabilities(hidden, columns)
    axioms.change_weights(model)
    now = subject.lm_head.probabilities(hidden, columns)
    assert torch.equal(now, nbsal.load(model, **settings).lm_head.probabilities(hidden, columns))
    assert axioms.relative(now, before) > 0.01 and model.training
    axioms.change_weights(model.double())
    now = subject.lm_head.probabilities(hidden.double(), columns)
    assert torch.equal(now, nbsal.load(model, **settings).lm_head.probabilities(hidden.double(), columns))
