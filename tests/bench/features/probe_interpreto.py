"""What interpreto can do."""

import copy

import interpreto
import numpy as np
import torch
from interpreto.attributions.metrics import Deletion

from tests.bench.features import models
from tests.bench.features.registry import partly

UNIT = interpreto.Granularity


def _model(build=models.classifier):
    model, tokenizer = build()
    return copy.deepcopy(model), copy.deepcopy(tokenizer)  # some methods change them


def _explain(kind="Saliency", build=models.classifier, unit=UNIT.TOKEN, **settings):
    return getattr(interpreto, kind)(*_model(build), granularity=unit, **settings)


def methods(folder):
    return f"{len(interpreto.attributions.__all__)} classes"


def batch(folder):
    both, alone = _explain()([models.SHORT, models.LONG]), _explain()([models.SHORT])
    assert torch.allclose(both[0].attributions, alone[0].attributions, atol=1e-5)
    return "equal"


def words(folder):
    result = _explain(unit=UNIT.WORD)([models.TYPED])[0]
    return f"units {list(map(str, result.elements))}"


def tagging(folder):
    _explain(build=models.tagger)([models.SHORT])


def spans(folder):
    _explain(build=models.reader)([models.LONG])


def contrast(folder):
    result = _explain()([models.SHORT], torch.tensor([[0, 1]]))[0]
    assert len(result.attributions) == 2
    return partly("several classes beside each other, not their difference")


def shapley(folder):
    for kind in ("KernelShap", "Lime", "Sobol"):
        _explain(kind)([models.SHORT])
    return "Kernel SHAP, LIME, Sobol indices"


def reply(folder):
    result = _explain(build=models.writer)(models.PROMPT, models.REPLY)[0]
    return f"{tuple(result.attributions.shape)} scores of prompt and reply"


def encoder_decoder(folder):
    _explain(build=models.translator)(models.PROMPT, models.REPLY)


def documents(folder):
    text = "the dull jokes . a warm film ."
    result = _explain("Occlusion", build=models.writer, unit=UNIT.SENTENCE)(text, models.REPLY)[0]
    return f"{len(result.elements)} units; sentences, or units of one's own"


def lens(folder):
    model, tokenizer = _model(models.writer)
    interpreto.LogitLens(interpreto.AllLayersSplitter(model, tokenizer=tokenizer), top_k=3)(models.PROMPT)
    return "logit lens, and a trained (tuned) lens"


def html(folder):
    result = _explain()([models.SHORT])[0]
    interpreto.plot_attributions(result, save_path=str(folder / "page.html"))
    page = (folder / "page.html").read_text()
    return partly("a page with scripts") if "<script" in page else "a page"


def faithfulness(folder):
    model, tokenizer = _model()
    score, _ = Deletion(model, tokenizer, n_perturbations=3).evaluate(_explain()([models.SHORT]))
    assert np.isfinite(score)
    return "insertion and deletion"


def concepts(folder):
    from interpreto import concepts

    names = [name for name in concepts.__all__ if name.endswith("Concepts")]
    model, tokenizer = _model()
    splitter = concepts.SplitterForClassification(model, tokenizer=tokenizer)
    activations, _ = splitter.get_activations([models.SHORT, models.LONG] * 6)
    explain = concepts.PCAConcepts(splitter, nb_concepts=3)
    explain.fit(activations)
    return f"{len(names)} decompositions and ways to interpret and to score them"
