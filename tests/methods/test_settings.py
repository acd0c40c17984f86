"""Settings that a method refuses, by the argument that its error names and by the values that it offers instead."""

import numpy as np
import pytest

import nbsal
from nbsal.ablation.decision import WAYS
from nbsal.heads import HeadMask
from nbsal.methods import decoding, perturbation, upper_layers
from nbsal.support.errors import InputError, UnknownName
from tests.cases import cases
from tests.raising import refuses

MASK = HeadMask.from_array(np.ones((3, 4)))
NUMBERS = {
    "shapley": {"samples": [0]},
    "kernel-shap": {"samples": [3, 0]},
    "occlusion": {"window": [1.5]},
    "lime": {"ridge": [-1], "width": [0, None]},
    "contextcite": {"alpha": [-1, float("nan")], "keep": [1, "half"], "samples": [0], "seed": [-1]},
    "ridge": {"ridge": [float("inf")], "keep": [0], "way": ["text"]},
    "integrated": {"steps": [0], "tolerance": [0, float("nan"), "small"]},
    "smooth": {"noise": [-1, "much"]},
    "deeplift-shap": {"baselines": ["zero"]},
    "gradient-shap": {"baselines": [2]},
    "decoded-gradcam": {"tau": [0]},
    "mask-lrp": {"mask": [None, HeadMask.from_array(np.ones((2, 4)))]},
}
INVALID = [
    (name, argument, value)
    for name, settings in NUMBERS.items()
    for argument, values in settings.items()
    for value in values
]
UNKNOWN = [
    ("shapley", {"level": "letter"}, perturbation.LEVELS),
    ("random", {"level": "letter"}, perturbation.LEVELS),
    ("ridge", {"level": "letter"}, perturbation.LEVELS),
    ("shapley", {"way": "blur"}, (*WAYS, "a token id")),
    ("integrated", {"baseline": "noise"}, upper_layers.BASELINES),
    ("gradient-shap", {"baselines": ("zero", "one")}, upper_layers.BASELINES),
    ("simple", {"norm": 3}, (1, 2)),
    ("decoded-gradcam", {"form": "per_word"}, decoding.FORMS),
    ("lrp", {"dtype": "half"}, ("mixed", "float64", "model")),
    ("mask-lrp", {"read": "during", "mask": MASK}, ("before", "after")),
    ("mask-lrp@equations", {"empty": "skip", "mask": MASK}, ("pass", "block")),
]


@cases("name, argument, value", INVALID)
def test_an_invalid_setting_is_named(load, name, argument, value):
    with refuses(argument, InputError) as caught:
        nbsal.Explainer(load("bert"), name, **{argument: value})
    assert caught.value.value is value or caught.value.value == pytest.approx(value, nan_ok=True)


@cases("name, settings, valid", UNKNOWN)
def test_an_unknown_choice_names_the_others(load, name, settings, valid):
    argument, value = next(iter(settings.items()))
    with refuses(argument, UnknownName) as caught:
        nbsal.Explainer(load("bert"), name, **settings)
    assert caught.value.valid == valid and value == settings[argument]


def test_decoding_takes_methods_of_a_layer_alone():
    with refuses("method"):
        nbsal.Decoded(nbsal.Occlusion())
