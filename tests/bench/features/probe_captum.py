"""What captum can do."""

import copy

import captum.attr
import captum.concept
import captum.influence
import captum.metrics
import torch
from captum.attr import LayerGradientXActivation, LLMAttribution, LLMGradientAttribution
from captum.attr._utils.lrp_rules import EpsilonRule

from tests.bench.features import models
from tests.bench.features.registry import partly


def _inputs(*texts):
    encoded = models.tokenizer()(list(texts), padding=True, return_tensors="pt")
    return encoded["input_ids"], encoded["attention_mask"]


def _forward(ids, mask):
    return models.classifier()[0](input_ids=ids, attention_mask=mask).logits


def _gradxact(*texts, forward=_forward, target=1):
    ids, mask = _inputs(*texts)
    return _attribute(forward, models.classifier()[0], ids, target, mask)


def _attribute(forward, model, ids, target, *arguments):
    method = LayerGradientXActivation(forward, model.bert.embeddings)
    return method.attribute(ids, target=target, additional_forward_args=arguments)


def methods(folder):
    values = [getattr(captum.attr, name) for name in captum.attr.__all__]
    kinds = {value for value in values if isinstance(value, type) and issubclass(value, captum.attr.Attribution)}
    return f"{len(kinds)} classes, with variants for layers and neurons"


def batch(folder):
    both, single = _gradxact(models.SHORT, models.LONG).sum(-1), _gradxact(models.SHORT).sum(-1)
    assert torch.allclose(both[0, : single.shape[1]], single[0], atol=1e-5)
    return "the caller pads and passes the mask"


def layers(folder):
    blocks = list(models.classifier()[0].bert.encoder.layer)
    ids, mask = _inputs(models.SHORT)
    scores = LayerGradientXActivation(_forward, blocks).attribute(ids, target=1, additional_forward_args=mask)
    assert len(scores) == len(blocks)
    return "a list of layers"


def pairs(folder):
    model, tokenizer = models.classifier()
    encoded = tokenizer(models.SHORT, models.LONG, return_tensors="pt")
    forward = lambda ids, types: model(input_ids=ids, token_type_ids=types).logits  # noqa: E731
    _attribute(forward, model, encoded["input_ids"], 1, encoded["token_type_ids"])
    return "the caller encodes them"


def spans(folder):
    model, tokenizer = models.reader()
    ids = tokenizer(models.SHORT, models.LONG, return_tensors="pt")["input_ids"]
    _attribute(lambda ids: model(input_ids=ids).start_logits, model, ids, 9)
    return partly("one end at a time, through a function that the caller writes")


def tagging(folder):
    model, tokenizer = models.tagger()
    ids = tokenizer(models.SHORT, return_tensors="pt")["input_ids"]
    _attribute(lambda ids: model(input_ids=ids).logits, model, ids, (2, 1))
    return "a tuple as the target"


def contrast(folder):
    forward = lambda ids, mask: (_forward(ids, mask) @ torch.tensor([[1.0], [-1.0]])).squeeze(-1)  # noqa: E731
    _gradxact(models.SHORT, forward=forward, target=None)
    return partly("through a function that the caller writes")


class _Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, embedded):
        return self.model(inputs_embeds=embedded).logits


def _lrp(model, ids, target):
    wrapped = _Logits(copy.deepcopy(model))
    for module in wrapped.modules():
        if not list(module.children()):
            module.rule = EpsilonRule()
    scores = captum.attr.LRP(wrapped).attribute(model.get_input_embeddings()(ids).detach(), target=target)
    assert torch.isfinite(scores).all() and scores.abs().sum() > 0
    return partly("the caller sets every module's rule; products of attention have none")


def relevance_bert(folder):
    return _lrp(models.classifier()[0], _inputs(models.SHORT)[0], 1)


def relevance_llama(folder):
    model, tokenizer = models.writer()
    return _lrp(model, tokenizer(models.PROMPT, return_tensors="pt")["input_ids"], (-1, 9))


def shapley(folder):
    ids, mask = _inputs(models.SHORT)
    settings = {"target": 1, "additional_forward_args": mask, "baselines": models.tokenizer().mask_token_id}
    with torch.no_grad():
        for kind in ("ShapleyValueSampling", "KernelShap", "Lime"):
            getattr(captum.attr, kind)(_forward).attribute(ids, n_samples=5, **settings)
    return "sampling, KernelSHAP, LIME"


def reply(folder):
    model, tokenizer = models.writer()
    explain = LLMGradientAttribution(LayerGradientXActivation(model, model.get_input_embeddings()), tokenizer)
    result = explain.attribute(captum.attr.TextTokenInput(models.PROMPT, tokenizer), target=models.REPLY)
    sizes = tuple(len(tokenizer(text)["input_ids"]) for text in (models.REPLY, models.PROMPT))
    assert result.token_attr.shape == sizes
    return partly("scores of the prompt's tokens, not of the reply's earlier ones")


def documents(folder):
    model, tokenizer = models.writer()
    features = captum.attr.TextTemplateInput("{} {}", ["the dull jokes", "a warm film"], baselines=["", ""])
    result = LLMAttribution(captum.attr.FeatureAblation(model), tokenizer).attribute(features, target=models.REPLY)
    assert result.token_attr.shape[1] == 2
    return "a template of texts"


def encoder_decoder(folder):
    model, tokenizer = models.translator()
    explain = LLMAttribution(captum.attr.FeatureAblation(model), tokenizer)
    explain.attribute(captum.attr.TextTokenInput(models.PROMPT, tokenizer), target=models.REPLY)


class _Server(captum.attr.RemoteLLMProvider):
    """A server that gives each token of the target its log-probability."""

    def generate(self, prompt, **settings):
        return models.REPLY

    def get_logprobs(self, input_prompt, target_str, tokenizer=None):
        return [-1.0 - ("warm" not in input_prompt)] * len(tokenizer(target_str)["input_ids"])


def served(folder):
    method = captum.attr.FeatureAblation(captum.attr.RemoteLLMAttribution.placeholder_model)
    explain = captum.attr.RemoteLLMAttribution(method, models.tokenizer(False), _Server())
    features = captum.attr.TextTemplateInput("{} {}", ["the dull jokes", "a warm film"], baselines=["", ""])
    scores = explain.attribute(features, target=models.REPLY).seq_attr
    assert scores[0] == 0 and scores[1] > 0
    return "vLLM, or a class with `get_logprobs`"


def html(folder):
    record = captum.attr.visualization.VisualizationDataRecord([0.5], 0.9, "a", "a", "a", 0.5, ["<b>film"], 0.0)
    page = captum.attr.visualization.visualize_text([record]).data
    assert "<script" not in page
    return "escaped" if "<b>film" not in page else partly("tokens are not escaped")


def progress(folder):
    ids, mask = _inputs(models.SHORT)
    method = captum.attr.FeatureAblation(_forward)
    method.attribute(ids, target=1, additional_forward_args=mask, show_progress=True)
    return partly("a bar; an interruption loses what is done")


def faithfulness(folder):
    ids, _ = _inputs(models.SHORT)
    embedded = models.classifier()[0].bert.embeddings.word_embeddings(ids).detach()
    forward = lambda x: models.classifier()[0](inputs_embeds=x).logits  # noqa: E731
    perturb = lambda x: (torch.ones_like(x) * 0.01, x - 0.01)  # noqa: E731
    scores = captum.attr.InputXGradient(forward).attribute(embedded.requires_grad_(), target=1)
    captum.metrics.infidelity(forward, perturb, embedded, scores, target=1)
    return partly("infidelity and sensitivity; no deletion curves")


def neurons(folder):
    ids, _ = _inputs(models.SHORT)
    model = models.classifier()[0]
    embedded = model.bert.embeddings.word_embeddings(ids).detach().requires_grad_()
    method = captum.attr.NeuronGradient(lambda x: model(inputs_embeds=x).logits, model.bert.pooler.dense)
    assert method.attribute(embedded, neuron_selector=(3,)).abs().sum() > 0
    return "which tokens drive a neuron, by eight methods"


def concepts(folder):
    model, tokenizer = models.classifier()
    sets = []
    for number, text in enumerate((models.SHORT, models.LONG)):
        ids = tokenizer(text, return_tensors="pt", padding="max_length", max_length=20)["input_ids"]
        batches = torch.utils.data.DataLoader([ids[0]] * 8, batch_size=4)
        sets.append(captum.concept.Concept(number, f"concept {number}", batches))
    forward = lambda ids: model(input_ids=ids).logits  # noqa: E731
    method = LayerGradientXActivation(forward, None, multiply_by_inputs=False)
    tcav = captum.concept.TCAV(model, ["bert.pooler"], layer_attr_method=method, save_path=str(folder))
    scores = tcav.interpret(_inputs(models.SHORT)[0], [sets], target=1)
    assert scores["0-1"]["bert.pooler"]["sign_count"].shape == (2,)
    return "TCAV"


def training_data(folder):
    model = torch.nn.Sequential(torch.nn.Embedding(40, 8), torch.nn.Flatten(), torch.nn.Linear(32, 2))
    x, y = torch.randint(40, (6, 4)), torch.tensor([0, 1] * 3)
    torch.save(model.state_dict(), folder / "model.pt")
    load = lambda module, path: module.load_state_dict(torch.load(path)) and 1.0  # noqa: E731
    data, loss = torch.utils.data.TensorDataset(x, y), torch.nn.CrossEntropyLoss(reduction="sum")
    settings = {"checkpoints_load_func": load, "loss_fn": loss, "batch_size": 3}
    influence = captum.influence.TracInCPFast(model, model[2], data, [str(folder / "model.pt")], **settings)
    indices, _ = influence.influence((x[:1], y[:1]), k=2)
    assert indices.shape == (1, 2)
    return "TracIn and influence functions"


def modalities(folder):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.LazyLinear(2))
    scores = captum.attr.Saliency(model).attribute(torch.rand(1, 3, 8, 8), target=0)
    assert scores.shape == (1, 3, 8, 8)
    return "any input of a torch module"
