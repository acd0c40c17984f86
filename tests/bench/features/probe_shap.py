"""What shap can do."""

import pickle

import numpy as np
import shap

from tests.bench.features import models
from tests.bench.features.registry import partly

SETTINGS = {"silent": True, "max_evals": 100}


def _text(algorithm="partition", function=models.logits):
    masker = shap.maskers.Text(models.tokenizer(), mask_token="[MASK]", collapse_mask_token=False)
    return shap.Explainer(function, masker, algorithm=algorithm, seed=0)


def methods(folder):
    for algorithm in ("partition", "permutation"):
        assert np.isfinite(_text(algorithm)([models.SHORT], **SETTINGS).values).all()
    return "2 for texts: partition, permutation"


def batch(folder):
    both, alone = (_text()(texts, **SETTINGS).values[0] for texts in ([models.SHORT, models.LONG], [models.SHORT]))
    assert np.allclose(both, alone, atol=1e-4)
    return "equal"


def offsets(folder):
    pieces = _text()([models.TYPED], **SETTINGS).data[0]
    assert "".join(pieces).split() == models.TYPED.split()
    return partly(f"pieces of the text as typed, without offsets: {[str(piece) for piece in pieces if piece]}")


def words(folder):
    result = shap.Explainer(models.logits, shap.maskers.Text(r"\W+"), seed=0)([models.TYPED], **SETTINGS)
    assert len(result.data[0]) == 3
    return "with a pattern or a function that splits"


def contrast(folder):
    difference = lambda texts: models.logits(texts) @ np.array([1, -1])  # noqa: E731
    assert _text(function=difference)([models.SHORT], **SETTINGS).values[0].ndim == 1
    return partly("through a function that the caller writes")


def shapley(folder):
    result = _text("permutation")([models.SHORT], **SETTINGS)
    total = result.values[0].sum(0) + result.base_values[0]
    assert np.allclose(total, models.logits([models.SHORT])[0], atol=1e-4)
    return "permutations; the sum is exact"


def black_box(folder):
    assert np.isfinite(_text()([models.SHORT], **SETTINGS).values).all()
    return "any function of texts"


def reply(folder):
    model, tokenizer = models.writer()
    explain = shap.Explainer(shap.models.TeacherForcing(model, tokenizer), shap.maskers.Text(tokenizer))
    return f"{explain([models.PROMPT], **SETTINGS).values.shape[1:]} scores of the prompt"


def encoder_decoder(folder):
    model, tokenizer = models.translator()
    result = shap.Explainer(model, tokenizer)([models.SHORT], **SETTINGS)
    return f"{result.values.shape[1:]} scores of the source"


def served(folder):
    model, tokenizer = models.writer()
    write = lambda texts: np.array([f"{text} warm film" for text in texts])  # noqa: E731
    judged = shap.models.TeacherForcing(write, similarity_model=model, similarity_tokenizer=tokenizer)
    masker = shap.maskers.Text(tokenizer, mask_token="...", collapse_mask_token=True)
    assert np.isfinite(shap.Explainer(judged, masker)([models.PROMPT], **SETTINGS).values).all()
    return partly("a function from prompts to replies, with a second model whose probabilities are explained")


def save(folder):
    result = _text()([models.SHORT], **SETTINGS)
    assert np.array_equal(pickle.loads(pickle.dumps(result)).values[0], result.values[0])
    return partly("by pickling")


def html(folder):
    page = shap.plots.text(_text()([models.SHORT], **SETTINGS)[0, :, 1], display=False)
    return partly("the text's colours and plot show; selecting needs scripts") if "onclick" in page else "a page"


def progress(folder):
    result = _text()([models.SHORT] * 12, max_evals=20)
    assert len(result) == 12
    return partly("a bar for long runs; an interruption loses what is done")


def owen(folder):
    result = _text()([models.LONG], **SETTINGS)
    assert result.hierarchical_values is not None and result.clustering is not None
    return "values of every node of the tree, and a plot that opens phrases"


def modalities(folder):
    x = np.random.default_rng(0).normal(size=(50, 3))
    values = shap.Explainer(lambda rows: rows[:, 0] * 2, x)(x[:2]).values
    assert np.allclose(values[:, 1:], 0, atol=1e-6)
    return "tables, trees and images"
