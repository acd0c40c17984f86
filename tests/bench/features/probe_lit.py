"""What LIT (lit-nlp) can do, without its server: the components that its dashboard runs."""

import torch
from lit_nlp.api import dataset, model, types
from lit_nlp.components import core, gradient_maps, lime_explainer, word_replacer
from lit_nlp.components.ablation_flip import AblationFlip

from tests.bench.features import models
from tests.bench.features.registry import partly


class _Texts(dataset.Dataset):
    def __init__(self):
        self._examples = [{"text": text, "label": "1"} for text in (models.SHORT, models.LONG)]

    def spec(self):
        return {"text": types.TextSegment(), "label": types.CategoryLabel(vocab=["0", "1"])}


class _Classifier(model.Model):
    def input_spec(self):
        return {"text": types.TextSegment()}

    def output_spec(self):
        return {
            "tokens": types.Tokens(parent="text"),
            "probabilities": types.MulticlassPreds(vocab=["0", "1"], parent="label"),
            "hidden": types.Embeddings(),
            "gradients": types.TokenGradients(align="tokens", grad_for="embedded", grad_target_field_key="class"),
            "embedded": types.TokenEmbeddings(align="tokens"),
            "class": types.CategoryLabel(required=False, vocab=["0", "1"]),
        }

    def predict(self, inputs):
        network, tokenizer = models.classifier()
        for example in inputs:
            ids = tokenizer(example["text"], return_tensors="pt")["input_ids"]
            embedded = network.bert.embeddings.word_embeddings(ids).detach().requires_grad_()
            output = network(inputs_embeds=embedded, output_hidden_states=True)
            probabilities = output.logits.softmax(-1)[0]
            chosen = int(probabilities.argmax())
            (gradient,) = torch.autograd.grad(output.logits[0, chosen], embedded)
            yield {
                "tokens": tokenizer.convert_ids_to_tokens(ids[0]),
                "probabilities": probabilities.detach().numpy(),
                "hidden": output.hidden_states[-1][0, 0].detach().numpy(),
                "gradients": gradient[0].numpy(),
                "embedded": embedded[0].detach().numpy(),
                "class": str(chosen),
            }


def _examples():
    return list(_Texts().examples)


def methods(folder):
    names = {type(part).__name__ for part in core.default_interpreters({"m": _Classifier()}).values()}
    kinds = names & {"GradientNorm", "GradientDotInput", "IntegratedGradients", "LIME"}
    scores = gradient_maps.GradientDotInput().run(_examples(), _Classifier(), _Texts())
    assert len(scores) == 2
    return f"{len(kinds)} for texts; the caller writes a class around the model"


def shapley(folder):
    lime_explainer.LIME().run(_examples()[:1], _Classifier(), _Texts(), config={"Class to explain": "-1"})
    return partly("LIME; Shapley values of table columns only")


def black_box(folder):
    lime_explainer.LIME().run(_examples()[:1], _Classifier(), _Texts(), config={"Class to explain": "-1"})
    return "any class with `predict`"


def counterfactuals(folder):
    changed = word_replacer.WordReplacer().generate(
        _examples()[0], _Classifier(), _Texts(), {"Substitutions": "warm -> dull", "Fields to replace": ["text"]}
    )
    assert changed[0]["text"] == "A dull and funny film."
    flips = AblationFlip().generate(
        _examples()[0], _Classifier(), _Texts(), {"Prediction key": "probabilities", "Fields to ablate": ["text"]}
    )
    return f"word lists, ablation ({len(flips)} flips here), HotFlip, back-translation"


def view(folder):
    from lit_nlp import notebook

    widget = notebook.LitWidget({"classifier": _Classifier()}, {"texts": _Texts()})
    try:
        assert hasattr(widget, "ui_state")
        return partly("an iframe with a server; Python reads its selection but cannot set it")
    finally:
        widget.stop()
