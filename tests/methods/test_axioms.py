"""Every method of the catalogue: a batch equals its single texts, and padding has no effect.

A new method is tested as soon as it is registered. One that cannot pass is named in `EXCEPTIONS` with the reason.
"""

import pytest

import nbsal
from nbsal.methods import catalogue
from nbsal.support.errors import ModelError
from tests import axioms, matrix

# Position ids that start at 0, or after padding; relative positions; local attention.
ENCODERS = ["bert", "roberta", "deberta-v2", "modernbert"]
DECODERS = ["gpt2", "llama"]
EXCEPTIONS = {
    "attention-gradcam@published": "divides 0 by 0 on texts without evidence (golden values cover it)",
    "smooth@allennlp": "is rounding noise where LayerNorms read the embeddings (test_allennlp.py tests it on Llama)",
}
# Settings that take another path through the code than the defaults.
SETTINGS = [
    nbsal.Occlusion(2, level="word"),
    nbsal.LIME(12, level="word", way="mask"),
    nbsal.Shapley(2, level="word", antithetic=False),
    nbsal.Random(level="word"),
    nbsal.Integrated(layer=1, steps=3, baseline="pad"),
    nbsal.GradientShap(layer=2, samples=3, baselines=("mask", "zero")),
    nbsal.Decoded(nbsal.Smooth(layer=1, samples=2)),
    nbsal.Decoded(nbsal.GradCAM(layer=2), form="per_token", tau=3),
    nbsal.Decoded(nbsal.Simple(layer=2), renormalise=True),
]


def pairs():
    """Every method on one architecture, in turn; with `-m full` on the others."""
    architectures = (*ENCODERS, *DECODERS)
    for number, name in enumerate(name for name in catalogue.names() if name not in EXCEPTIONS):
        for place, architecture in enumerate(architectures):
            marks = () if place == number % len(architectures) else pytest.mark.full
            yield pytest.param(architecture, name, marks=marks)


def check(explain):
    axioms.batch_equals_singles(explain, axioms.TEXTS[1:3])
    axioms.padding_is_invisible(explain, extra=20)


@pytest.mark.some(20)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("architecture", "name"), list(pairs()))
def test_batches_and_padding(load, architecture, name):
    try:
        check(nbsal.Explainer(load(architecture), matrix.method(name)))
    except ModelError as error:  # test_matrix.py tests who refuses what
        assert error.part in matrix.FOOTNOTES


@pytest.mark.parametrize("method", SETTINGS, ids=lambda method: method.name)
@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_batches_and_padding_with_other_settings(load, architecture, method):
    check(nbsal.Explainer(load(architecture), method))
