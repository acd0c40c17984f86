"""ThermoStat's explainers (Feldhus et al. 2021) exactly as they ran, bugs included: captum's calls, text by text.

Texts are explained at `base_model.embeddings`. Masked tokens become padding tokens that are still attended to, special
tokens stay; in models that number positions by padding (RoBERTa) this shifts the positions. ThermoStat pads every text
to 512 tokens, which the model never attends to: padding is left out here where that is exact, and simulated otherwise.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from nbsal.ablation.engine import TOKENS as BATCH_TOKENS
from nbsal.methods.base import Method, register, setting
from nbsal.methods.cost import CONTENT_TOKENS, SAMPLES, TOKENS, Cost
from nbsal.methods.paths import clean_captum
from nbsal.methods.perturbation import ridge_slopes
from nbsal.methods.rng import text_rng
from nbsal.model.running import architecture
from nbsal.model.running.layers import forward_mode
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row
from nbsal.passes.trace import Trace
from nbsal.support.errors import ModelError
from nbsal.support.validation import positive_number

LENGTH = 512  # tokens to which ThermoStat pads


class CaptumModel(nn.Module):
    """One text of a trace as a function from token ids to the target value, as captum needs it."""

    def __init__(self, trace: Trace, number: int) -> None:
        super().__init__()
        self.trace = trace
        self.subject = trace.subject
        self.model = trace.subject.twin
        self.row: Row = trace.encoded[number]
        self.target = trace.decisions[number].target
        self.inputs = self.subject.inputs(trace.encoded[number : number + 1])
        self.ids = self.inputs["input_ids"]
        self.pad = self.subject.text_encoder.pad_id
        special = torch.tensor([self.row.special], device=self.ids.device)
        self.baseline = torch.where(special, self.ids, self.pad)
        self.embeddings: nn.Module = getattr(
            architecture.body(self.model), "embeddings", self.model.get_input_embeddings()
        )

    def forward(self, ids: Tensor) -> Tensor:
        """The target value for each row of token ids, which captum may pass as floats."""
        self.trace.meter.check()
        inputs = {name: tensor.expand(len(ids), -1) for name, tensor in self.inputs.items()}
        logits = self.subject.logits(inputs | {"input_ids": ids.long()})
        return self.target.value(logits.movedim(0, -1))

    @property
    def batch_size(self) -> int:
        """How many rows fit well into one forward pass."""
        return max(1, BATCH_TOKENS // self.ids.shape[1])

    def append_padding(self, count: int) -> None:
        """Append padding to the text, up to the model's and ThermoStat's length."""
        count = max(0, min(count, min(LENGTH, self.subject.max_length) - len(self.row)))
        fills = {"input_ids": self.pad}
        self.inputs = {
            name: nn.functional.pad(tensor, (0, count), value=fills.get(name, 0))
            for name, tensor in self.inputs.items()
        }
        self.ids = self.inputs["input_ids"]


@dataclass(frozen=True)
class ThermoStatMethod(Method):
    """One of ThermoStat's explainers, which explain one text at a time."""

    needs = frozenset({"forward"})
    paper = "Feldhus et al. 2021 (ThermoStat), as in the released code"

    def resolve(self, subject: Subject) -> Self:
        if subject.unbatchable:
            message = (
                f"{self.name} masks tokens with padding, which {subject.name} cannot tell from text. Set "
                f"model.config.pad_token_id, or use {self.name.partition('@')[0]}."
            )
            raise ModelError(message, part="padding token")
        return super().resolve(subject)

    def scores(self, trace: Trace) -> Tensor:
        return trace.cached(self, lambda: self._attribute_all(trace))

    @abstractmethod
    def attribute(self, program: CaptumModel) -> Any:
        """Captum's scores of a text, [1, position] or [1, position, width]; those of appended padding are dropped."""

    def _attribute_all(self, trace: Trace) -> Tensor:
        meter = trace.meter.part(1, len(trace.encoded))
        scores = torch.zeros(len(trace.encoded), trace.encoded.longest).to(trace.logits)
        with forward_mode(gradients=True):
            for i, row in enumerate(trace.encoded):
                attributions = self.attribute(CaptumModel(trace, i)).detach()[0, : len(row)]
                scores[i, : len(row)] = attributions.reshape(len(row), -1).sum(-1).to(scores)
                meter.step()
        return scores


@register("gradxact@thermostat", family="gradient", cost=Cost(2, backwards=1), promise={"signed", "about_target"})
@dataclass(frozen=True)
class ThermoStatGradientXActivation(ThermoStatMethod):
    """Gradient times activation at the embeddings."""

    def attribute(self, program: CaptumModel) -> Any:
        from captum.attr import LayerGradientXActivation

        return LayerGradientXActivation(program, program.embeddings).attribute(program.ids)


@register(
    "integrated@thermostat",
    family="gradient",
    cost=Cost(28, backwards=25),
    promise={"signed", "about_target", "sums_to_change"},
)
@dataclass(frozen=True)
class ThermoStatIntegrated(ThermoStatMethod):
    """25 steps from padding tokens, whose positions are shifted in models that number positions by padding."""

    def attribute(self, program: CaptumModel) -> Any:
        from captum.attr import LayerIntegratedGradients

        return LayerIntegratedGradients(program, program.embeddings).attribute(
            program.ids, baselines=program.baseline, n_steps=25, internal_batch_size=program.batch_size
        )


@register(
    "lime@thermostat", family="perturbation", cost=Cost(1 + SAMPLES), promise={"signed", "about_target", "seeded"}
)
@dataclass(frozen=True)
class ThermoStatLIME(ThermoStatMethod):
    """Ridge regression on token ids as if they were quantities; each token becomes padding with probability 0.3.

    The weight of a sample is its share of unchanged ids among 512, most of which are padding.
    """

    samples: int = setting(25, positive_number)
    seed: int = 0

    def perturbed(self, program: CaptumModel) -> Tensor:
        """The sampled token ids, [sample, position]."""
        special_ids = getattr(program.subject.tokenizer, "all_special_ids", [])  # that of unknown text among them
        fixed = np.array(program.row.special) | np.isin(program.row.ids, special_ids)
        masked = text_rng(self.seed, program.row).random((self.samples, len(program.row))) < 0.3
        return torch.where(torch.from_numpy(masked & ~fixed).to(program.ids.device), program.pad, program.ids)

    def attribute(self, program: CaptumModel) -> Any:
        ids = self.perturbed(program)
        with torch.no_grad():
            values = torch.cat([program(batch) for batch in torch.split(ids, program.batch_size)])
        length = max(len(program.row), min(LENGTH, program.subject.max_length))
        weights = 1 - (ids != program.ids).sum(1) / length
        points, outcomes, sample_weights = (tensor.double().cpu().numpy() for tensor in (ids, values, weights))
        return torch.from_numpy(ridge_slopes(points, outcomes, sample_weights, ridge=1.0))[None]


@register("occlusion@thermostat", family="perturbation", cost=Cost(2 + TOKENS), promise={"signed", "about_target"})
@dataclass(frozen=True)
class ThermoStatOcclusion(ThermoStatMethod):
    """Windows of three tokens, special ones included, become token 0, whatever it is (`<s>` for RoBERTa)."""

    def attribute(self, program: CaptumModel) -> Any:
        from captum.attr import Occlusion

        program.append_padding(2)  # windows extend beyond the end of the text
        with torch.no_grad():
            return Occlusion(program).attribute(
                program.ids, sliding_window_shapes=(3,), perturbations_per_eval=program.batch_size
            )


@register(
    "shapley@thermostat",
    family="perturbation",
    cost=Cost(2 + SAMPLES * (CONTENT_TOKENS + 1)),
    promise={"signed", "about_target", "sums_to_change", "seeded"},
)
@dataclass(frozen=True)
class ThermoStatShapley(ThermoStatMethod):
    """Captum's permutation sampling; all tokens that never change (special, padding) are one player, which is exact."""

    samples: int = setting(25, positive_number)
    seed: int = 0

    def attribute(self, program: CaptumModel) -> Any:
        from captum.attr import ShapleyValueSampling

        rng, sampling = text_rng(self.seed, program.row), ShapleyValueSampling(program)
        sampling.permutation_generator = lambda players, samples: (
            rng.permutation(players).tolist() for _ in range(samples)
        )
        players = torch.arange(1, len(program.row) + 1, device=program.ids.device)
        players[torch.tensor(program.row.special)] = 0
        # Captum gives the whole score of a player to each of its tokens; here the player with several tokens scores 0.
        with torch.no_grad():
            return sampling.attribute(
                program.ids,
                baselines=program.baseline,
                feature_mask=torch.unique(players, return_inverse=True)[1][None],
                n_samples=self.samples,
                perturbations_per_eval=program.batch_size,
            )


@register(
    "gradient-shap@thermostat",
    family="gradient",
    cost=Cost(8, backwards=5),
    promise={"signed", "about_target", "seeded"},
)
@dataclass(frozen=True)
class ThermoStatGradientShap(ThermoStatMethod):
    """Gradients at five texts of unrelated tokens, since token ids are interpolated and rounded down."""

    seed: int = 0

    def attribute(self, program: CaptumModel) -> Any:
        from captum.attr import LayerActivation, LayerGradientXActivation

        gradient = LayerGradientXActivation(program, program.embeddings, multiply_by_inputs=False)
        mean = torch.zeros(())
        for share in torch.from_numpy(text_rng(self.seed, program.row).random(5)).float():
            ids = (share * program.ids.float() + (1 - share) * program.baseline.float()).long()
            mean = mean + gradient.attribute(ids) / 5
        states = LayerActivation(program, program.embeddings)
        difference = states.attribute(program.ids) - states.attribute(program.baseline)
        return mean * difference


@register(
    "deeplift-shap@thermostat",
    family="gradient",
    cost=Cost(5, backwards=4),
    promise={"signed", "about_target", "not_complete"},
)
@dataclass(frozen=True)
class ThermoStatDeepLiftShap(ThermoStatMethod):
    """Baselines: all tokens 0, and all padding.

    For the limits of captum's DeepLift on transformers see `nbsal.DeepLiftShap`.
    """

    def attribute(self, program: CaptumModel) -> Any:
        from captum.attr import LayerDeepLiftShap

        baselines = torch.stack((torch.zeros_like(program.ids[0]), program.baseline[0]))
        with clean_captum(program.model):
            return LayerDeepLiftShap(program, program.embeddings).attribute(
                program.ids.float(), baselines=baselines.float()
            )
