"""The explanation of one part of a reply, at the layer of its answer or at every layer."""

from dataclasses import dataclass, field, replace

from nbsal.answers.running import Running
from nbsal.explain.saliency import LayerSaliency, Saliency
from nbsal.model.target import Target
from nbsal.support.errors import InputError
from nbsal.support.validation import checked

OF_ONE_TARGET = ("change", "gap", "points")  # entries of a provenance: of one target, at one layer


@dataclass(frozen=True, eq=False, repr=False)
@checked
class SpanSaliency(Saliency):
    """The explanation of a part of a reply as one target; `Answer.of` and `Answer.rather` make it.

    >>> import nbsal
    >>> asked = [{"role": "user", "content": "Where does Mara live? Mara lives in Oslo."}]
    >>> result = nbsal.answer(nbsal.load("demo/notes"), asked, " In Oslo.", method="gradxact", progress=False)
    >>> result.of("Oslo").every_layer().scores.shape == (5, len(result.of("Oslo").tokens))
    True
    """

    span_target: Target | None = None
    running: Running | None = field(default=None, repr=False)  # the model; not saved

    def every_layer(self) -> LayerSaliency:
        """The same target explained at every layer, from one forward and one backward pass."""
        if self.running is None:
            message = "This explanation was loaded, or compares two replies, and has no layers. Use nbsal.answer again."
            raise InputError(message, argument="span")
        layers = self.running.every_layer(self.span_target, len(self.row))
        provenance = {name: value for name, value in self.provenance.items() if name not in OF_ONE_TARGET}
        return replace(
            layers,
            row=self.row,
            target=self.target,
            prediction=self.prediction,
            probabilities=self.probabilities,
            provenance=provenance | {"parameters": layers.provenance["parameters"]},
        )
