"""Why two texts are similar: the part of every pair of tokens (integrated Jacobians, Moeller et al. 2023).

The similarity of two embeddings is bilinear. What each token adds to its text's embedding is the mean Jacobian between
a baseline and the text, times the difference; the product of what two tokens add is the score of the pair.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from nbsal.explain.explanation import Floats
from nbsal.explain.saliency import check_axes, set_names
from nbsal.methods.upper_layers import UpperLayers
from nbsal.model.loading.composite import Composite
from nbsal.model.running import architecture
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row
from nbsal.passes import trace
from nbsal.render import colours
from nbsal.support.errors import ModelError
from nbsal.support.lazy import Axes, pandas, pyplot
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked, positive_number

__all__ = ("TokenPairs", "token_pairs")

BILINEAR = ("cosine", "dot")  # similarities that are a sum over pairs
FEATURES = 64  # of the embedding whose gradients are computed together
POINTS = 8  # of the path that are one batch


@checked
@dataclass(frozen=True, eq=False)
class TokenPairs:
    """The score of each pair of tokens, [token of the first text, token of the second].

    The scores sum to `change`: the similarity, less that of each text with the other's baseline, plus that of both
    baselines. A baseline is the text with padding in place of its content.
    """

    first: Row
    second: Row
    scores: Floats
    similarity: float
    change: float

    @property
    def gap(self) -> float:
        """By how much the scores miss the change they explain: the error of the sum over the path."""
        return float(self.scores.sum()) - self.change

    def to_frame(self) -> "pandas.DataFrame":
        """The scores as a table: the tokens of the first text down, those of the second across."""
        return pandas.DataFrame(self.scores, index=list(self.first.tokens), columns=list(self.second.tokens))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A heat map of the content tokens of both texts."""
        check_axes(ax)
        down, across = (list(row.content) for row in (self.first, self.second))
        if ax is None:
            size = (max(4.0, 0.35 * len(across) + 1.5), max(2.5, 0.3 * len(down) + 1.4))
            _, ax = pyplot.subplots(figsize=size, layout="constrained")
        shares = self.scores[np.ix_(down, across)]
        limit = float(np.abs(shares).max()) or 1.0
        colour_map = colours.colour_map(colours.AGAINST, colours.WHITE, colours.FOR)
        image = ax.imshow(shares, aspect="auto", cmap=colour_map, vmin=-limit, vmax=limit)
        set_names(ax, [self.second.tokens[i] for i in across])
        ax.set_yticks(range(len(down)), [self.first.tokens[i] for i in down], parse_math=False)
        ax.set_title(f"similarity {self.similarity:.3f}", fontsize="medium")
        ax.figure.colorbar(image, ax=ax, label="score of the pair")
        return ax


@checked
def token_pairs(
    subject: Subject,
    first: str,
    second: str,
    *,
    steps: int = 40,
    progress: Progress = True,
    cancel: Event | None = None,
) -> TokenPairs:
    """Explain the similarity of two texts by pairs of their tokens.

    `subject` is an embedding model, loaded with `similar_to=...` (any text). The cost for each text is a backward pass
    for each feature of the embedding at each of `steps` points.
    """
    embed = _embedding(subject)
    steps = positive_number(steps, "steps")
    with Meter(2 * steps, progress, cancel) as meter:
        results = [_attribute(subject, embed, text, steps, meter) for text in (first, second)]
    (row, parts, ends), (other_row, other_parts, other_ends) = results
    similarities = ends @ other_ends.T  # of the text and its baseline with the other text and its baseline
    change = similarities[0, 0] - similarities[0, 1] - similarities[1, 0] + similarities[1, 1]
    return TokenPairs(row, other_row, parts @ other_parts.T, float(similarities[0, 0]), float(change))


Embed = Callable[[dict[str, Tensor]], Tensor]


def _embedding(subject: Subject) -> Embed:
    """The embeddings of a subject as a function of its inputs, of length 1 where cosines are compared."""
    module: Any = subject.model.module if isinstance(subject.model, Composite) else None
    function = getattr(getattr(module, "head", None), "function", None)
    if module is None or function not in BILINEAR:
        message = (
            f"{subject.name} compares no embeddings by their cosine or dot product. Load a SentenceTransformer with "
            "nbsal.load(model, similar_to=...)."
        )
        raise ModelError(message, part="similarity")

    def embed(inputs: dict[str, Tensor]) -> Tensor:
        embedding: Tensor = subject.twin.module.embed(**inputs)
        return functional.normalize(embedding) if function == "cosine" else embedding

    return embed


def _attribute(
    subject: Subject, embed: Embed, text: str, steps: int, meter: Meter
) -> tuple[Row, NDArray[np.float64], NDArray[np.float64]]:
    """What each token adds to each feature of the embedding, and the embeddings of the text and of its baseline."""
    encoded = subject.encode(text)
    record = trace.record(subject, encoded, needs={"hidden"}, keep=[0])
    upper = UpperLayers(record, 0)
    end, start = upper.states, upper.baseline("pad")
    inputs = subject.inputs(encoded)

    def embed_states(states: Tensor) -> Tensor:
        copies = {name: tensor.expand(len(states), -1) for name, tensor in inputs.items()}
        with architecture.replace_layer(subject.twin, 0, states):
            return embed(copies)

    def run() -> tuple[Tensor, Tensor]:
        with architecture.forward_mode(gradients=True):
            parts = torch.zeros((), dtype=torch.float64)
            for points, weights in _path(start, end, steps):
                meter.check()
                jacobian = _jacobian(embed_states, points)  # [feature, point, token, width]
                moved = torch.einsum("fpid,p,id->if", jacobian.double(), weights, (end - start)[0].double())
                parts = parts + moved
                meter.step(len(points))
            with torch.no_grad():
                return parts, embed_states(torch.cat([end, start])).double()

    parts, ends = subject.exclusively(run)
    return encoded[0], parts.cpu().numpy(), ends.cpu().numpy()


def _path(start: Tensor, end: Tensor, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of points between two states, with their weights, by Gauss and Legendre's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    for first in range(0, steps, POINTS):
        shares = torch.as_tensor((nodes[first : first + POINTS] + 1) / 2).to(start)[:, None, None]
        points = (start + shares * (end - start)).detach().requires_grad_(True)
        yield points, torch.as_tensor(weights[first : first + POINTS] / 2).to(start.device)


def _jacobian(embed: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    """The gradient of each feature of the embedding at each point, [feature, point, token, width]."""
    embedding = embed(points)
    selectors = torch.eye(embedding.shape[1]).to(embedding)
    parts: list[Any] = []
    for chunk in torch.split(selectors, FEATURES):
        outputs = chunk[:, None].expand(-1, len(points), -1)
        parts += torch.autograd.grad(embedding, points, outputs, retain_graph=True, is_grads_batched=True)
    return torch.cat(parts)


def __dir__() -> list[str]:
    return sorted(__all__)
