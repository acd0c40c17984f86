"""Models of SetFit: an embedding model and a linear head, trained in torch or by scikit-learn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbsal.model.loading.usage import LoadArguments, OpenedModel
from nbsal.model.loading.wrappers.embedding import open_embedding
from nbsal.support.errors import ModelError


def open_setfit(model: Any, request: LoadArguments) -> OpenedModel:
    """A SetFit model as an embedding model with a linear head."""
    head = model.model_head
    if isinstance(head, nn.Module):
        torch_head = TorchHead(head)
        activation = "sigmoid" if head.multitarget else "softmax"
        names = _names(model, range(head.out_features))  # type: ignore[arg-type]
        return open_embedding(model.model_body, torch_head, model.normalize_embeddings, names, activation)
    weight, bias, activation, classes = _linear(head)
    linear = nn.Linear(weight.shape[1], len(weight)).requires_grad_(False)
    linear.weight.data, linear.bias.data = (torch.from_numpy(part) for part in (weight, bias))
    parameter = next(model.model_body.parameters())
    linear = linear.to(parameter.device, parameter.dtype)
    names = _names(model, classes)
    return open_embedding(model.model_body, linear, model.normalize_embeddings, names, activation)


class TorchHead(nn.Module):
    """The logits of a SetFitHead, which also returns probabilities."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, embedding: Tensor) -> Tensor:
        """The logits, divided by the temperature."""
        logits: Tensor = self.head(embedding)[0]
        return logits


def _linear(head: Any) -> tuple[Any, Any, str, Sequence[Any]]:
    """The weight and the bias of a head of scikit-learn, its activation, and its classes."""
    if hasattr(head, "estimators_"):
        parts = [_row(estimator) for estimator in head.estimators_]
        if all(part is not None for part in parts) and not hasattr(head, "order_"):  # a chain is not linear
            weights, biases = zip(*parts, strict=True)
            classes = range(len(parts))
            return np.stack(weights), np.stack(biases), "sigmoid", classes
    elif type(head).__name__ == "LogisticRegression":
        if len(head.coef_) == 1:  # one row tells two classes apart
            halves = np.array([[-0.5], [0.5]])
            return halves @ head.coef_, (halves @ head.intercept_[None])[:, 0], "softmax", head.classes_
        return np.array(head.coef_), np.array(head.intercept_), "softmax", head.classes_
    message = (
        f"The head of this SetFit model ({type(head).__name__}) is no linear map. Pass the function "
        "model.predict_proba, which occlusion, LIME and Shapley explain."
    )
    raise ModelError(message, part="head")


def _row(estimator: Any) -> tuple[Any, Any] | None:
    """The weight and the bias of a classifier of two classes."""
    if type(estimator).__name__ != "LogisticRegression" or len(estimator.coef_) != 1:
        return None
    return estimator.coef_[0], estimator.intercept_[0]


def _names(model: Any, classes: Sequence[Any]) -> list[str]:
    """The labels: those of the model, or the classes that the head was trained with."""
    labels = model.labels
    return [str(labels[label]) if labels and isinstance(label, int | np.integer) else str(label) for label in classes]
