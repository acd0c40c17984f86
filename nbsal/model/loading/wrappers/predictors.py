"""Functions of texts, and objects that predict: estimators of scikit-learn, models of Keras, pipelines of spaCy.

They are recognised by what they can do; their layers are not read, so methods that hide words explain them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nbsal.model.loading.black_box import BlackBox
from nbsal.model.loading.usage import LoadArguments, OpenedModel, Preprocessing
from nbsal.support.errors import ModelError
from nbsal.support.warning import warn


def open_predictor(model: Any, request: LoadArguments) -> OpenedModel | None:
    """A function from texts to probabilities, or an object that has one; None for anything else."""
    name = type(model).__name__
    if isinstance(model, type):
        return None
    if callable(getattr(model, "predict_proba", None)):
        return _open(model.predict_proba, request, _classes(model), name)
    if callable(getattr(model, "predict", None)):
        if _classes(model) is not None:
            message = (
                f"{name} has no predict_proba, only labels, which hiding a word seldom changes. Train an estimator "
                "that has it (sklearn.calibration.CalibratedClassifierCV adds it), and pass that or its predict_proba."
            )
            raise ModelError(message, part="predict_proba")
        opened = _open(lambda texts: model.predict(np.array(texts, dtype=object)), request, None, name)
        if request.labels is None and opened.model.outputs > 1:
            warn(f"{name} does not name its {opened.model.outputs} classes. Pass nbsal.load(model, labels=[...]).")
        return opened
    if hasattr(model, "pipe_names") and callable(getattr(model, "pipe", None)):
        return _open(lambda texts: _categories(model, texts), request, None, name)
    if callable(model):
        return _open(model, request, _classes(getattr(model, "__self__", None)), "")
    return None


def _open(
    function: Callable[[Any], Any], request: LoadArguments, classes: Sequence[str] | None, name: str
) -> OpenedModel:
    box = BlackBox(function, request.labels, name)
    names = classes if classes is not None and len(classes) == box.outputs else box.labels
    return OpenedModel(box, labels=names, usage=Preprocessing(activation=box.activation))


def _categories(pipeline: Any, texts: Sequence[str]) -> list[dict[str, float]]:
    """The scores that a pipeline of spaCy gives to the categories of each text."""
    rows = [document.cats for document in pipeline.pipe(texts)]
    if not all(rows):
        message = f"The pipeline has no component that classifies texts (textcat), only {pipeline.pipe_names}."
        raise ModelError(message, part="textcat")
    return rows


def _classes(estimator: Any) -> list[str] | None:
    """The names of the classes of an estimator, if it says them."""
    classes = getattr(estimator, "classes_", None)
    return None if classes is None else [str(each) for each in classes]
