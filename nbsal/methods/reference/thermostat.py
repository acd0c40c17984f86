"""ThermoStat's explainers (Feldhus et al. 2021) exactly as they ran, defects included: captum's calls, one text a time.

Each text is read at `base_model.embeddings`; what is hidden becomes padding in full view, special tokens stay; where a
model numbers positions by its padding (RoBERTa), they shift. ThermoStat pads to 512 tokens, which the model never sees:
padding is left out here wherever that is exact, and minded where it is not.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from nbsal.errors import ModelError
from nbsal.methods.base import Method, register
from nbsal.methods.paths import quiet_captum
from nbsal.methods.perturbation import slopes
from nbsal.methods.rng import text_rng
from nbsal.model import architecture
from nbsal.model.masking import TOKENS
from nbsal.model.subject import Subject
from nbsal.model.tokens import Row
from nbsal.trace import Trace
from nbsal.validation import positive_number

PAPER = "Feldhus et al. 2021 (ThermoStat), as published"
LENGTH = 512  # what ThermoStat pads to


class CaptumModel(nn.Module):
    """One text as ThermoStat's program holds it; called with other ids, it answers with the target."""

    def __init__(self, trace: Trace, number: int) -> None:
        super().__init__()
        self.trace = trace
        self.subject = trace.subject
        self.model = trace.subject.model
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
        """The target for each row of ids; whatever their type, they are token ids."""
        self.trace.meter.check()
        many = {name: tensor.expand(len(ids), -1) for name, tensor in self.inputs.items()}
        logits = self.subject.logits(many | {"input_ids": ids.long()})
        return self.target.value(logits.movedim(0, -1))

    @property
    def at_once(self) -> int:
        """How many rows go well into one run of the model."""
        return max(1, TOKENS // self.ids.shape[1])

    def pad_up(self, count: int) -> None:
        """Padding behind the text, as far as the model reads and ThermoStat pads."""
        count = max(0, min(count, min(LENGTH, self.subject.max_length) - len(self.row)))
        fills = {"input_ids": self.pad}
        self.inputs = {
            name: nn.functional.pad(tensor, (0, count), value=fills.get(name, 0))
            for name, tensor in self.inputs.items()
        }
        self.ids = self.inputs["input_ids"]


@dataclass(frozen=True)
class ThermoStatMethod(Method):
    """An explainer of ThermoStat: texts one by one."""

    def resolve(self, subject: Subject) -> Self:
        if subject.one_at_a_time:
            raise ModelError(
                f"{self.name} hides tokens as padding, which {subject.name} cannot tell from text: set a "
                f"decoder's model.config.pad_token_id, or take {self.name.partition('@')[0]}."
            )
        return self

    def scores(self, trace: Trace) -> Tensor:
        return trace.cached(self, lambda: self._one_by_one(trace))

    @abstractmethod
    def attributed(self, program: CaptumModel) -> Tensor:
        """A number for each token of the text, [position]; of padding behind it, nothing is kept."""

    def _one_by_one(self, trace: Trace) -> Tensor:
        subject, meter = trace.subject, trace.meter.part(1, len(trace.encoded))
        scores = torch.zeros(len(trace.encoded), trace.encoded.longest).to(trace.logits)
        with subject.lock, torch.inference_mode(False), torch.enable_grad(), architecture.eval_mode(subject.model):
            for i, row in enumerate(trace.encoded):
                scores[i, : len(row)] = self.attributed(CaptumModel(trace, i)).detach()[: len(row)].to(scores)
                meter.step()
        return scores


@register(
    "gradxact@thermostat",
    family="gradient",
    needs={"forward"},
    paper=PAPER,
    cost="2, and 1 backward",
    promise="signed; special tokens included",
)
@dataclass(frozen=True)
class ThermoStatGradientXActivation(ThermoStatMethod):
    """Gradient times activation at the embeddings."""

    def attributed(self, program: CaptumModel) -> Tensor:
        from captum.attr import LayerGradientXActivation

        found: Tensor = LayerGradientXActivation(program, program.embeddings).attribute(program.ids)
        return found[0].sum(-1)


@register(
    "integrated@thermostat",
    family="gradient",
    needs={"forward"},
    paper=PAPER,
    cost="3 + 25, and 25 backwards",
    promise="signed; sums to the change from the padded baseline",
)
@dataclass(frozen=True)
class ThermoStatIntegrated(ThermoStatMethod):
    """25 steps from padding, whose positions are shifted where the model counts padding."""

    def attributed(self, program: CaptumModel) -> Tensor:
        from captum.attr import LayerIntegratedGradients

        found: Tensor = LayerIntegratedGradients(program, program.embeddings).attribute(
            program.ids, baselines=program.baseline, n_steps=25, internal_batch_size=program.at_once
        )
        return found[0].sum(-1)


@register(
    "lime@thermostat",
    family="perturbation",
    needs={"forward"},
    paper=PAPER,
    cost="1 + samples (25)",
    promise="the slopes of a ridge fit to the numbers of the tokens; drawn from (seed, text)",
)
@dataclass(frozen=True)
class ThermoStatLIME(ThermoStatMethod):
    """A ridge on raw token ids, which are no quantities; tokens become padding with a chance of 0.3.

    Samples count by the share of equal ids in 512, of which padding alone makes up most.
    """

    samples: int = 25
    seed: int = 0

    def resolve(self, subject: Subject) -> Self:
        return replace(super().resolve(subject), samples=positive_number(self.samples, "samples"))

    def perturbed(self, program: CaptumModel) -> Tensor:
        """The ids that are asked about, [sample, position]."""
        spared = np.array(program.row.special) | np.isin(program.row.ids, _reserved(program.subject.tokenizer))
        hidden = text_rng(self.seed, program.row).random((self.samples, len(program.row))) < 0.3
        return torch.where(torch.from_numpy(hidden & ~spared).to(program.ids.device), program.pad, program.ids)

    def attributed(self, program: CaptumModel) -> Tensor:
        ids = self.perturbed(program)
        with torch.no_grad():
            values = torch.cat([program(some) for some in torch.split(ids, program.at_once)])
        length = max(len(program.row), min(LENGTH, program.subject.max_length))
        weights = 1 - (ids != program.ids).sum(1) / length
        points, numbers, known = (part.double().cpu().numpy() for part in (ids, values, weights))
        return torch.from_numpy(slopes(points, numbers, known, ridge=1.0))


@register(
    "occlusion@thermostat",
    family="perturbation",
    needs={"forward"},
    paper=PAPER,
    cost="2 + tokens",
    promise="signed; special tokens included",
)
@dataclass(frozen=True)
class ThermoStatOcclusion(ThermoStatMethod):
    """Windows of three tokens, special ones included, become token 0, whatever that is: `<s>` for RoBERTa."""

    def attributed(self, program: CaptumModel) -> Tensor:
        from captum.attr import Occlusion

        program.pad_up(2)  # windows reach over the end of the text
        with torch.no_grad():
            found: Tensor = Occlusion(program).attribute(
                program.ids, sliding_window_shapes=(3,), perturbations_per_eval=program.at_once
            )
        return found[0]


@register(
    "shapley@thermostat",
    family="perturbation",
    needs={"forward"},
    paper=PAPER,
    cost="2 + samples (25) x (content tokens + 1)",
    promise="signed; sums to the change from the padded baseline; drawn from (seed, text)",
)
@dataclass(frozen=True)
class ThermoStatShapley(ThermoStatMethod):
    """Captum's permutation sampling; what cannot change (special tokens, padding) is one player, which is exact."""

    samples: int = 25
    seed: int = 0

    def resolve(self, subject: Subject) -> Self:
        return replace(super().resolve(subject), samples=positive_number(self.samples, "samples"))

    def attributed(self, program: CaptumModel) -> Tensor:
        from captum.attr import ShapleyValueSampling

        chance, sampling = text_rng(self.seed, program.row), ShapleyValueSampling(program)
        sampling.permutation_generator = lambda players, samples: (
            chance.permutation(players).tolist() for _ in range(samples)
        )
        players = torch.arange(1, len(program.row) + 1, device=program.ids.device)
        players[torch.tensor(program.row.special)] = 0
        with torch.no_grad():
            found: Tensor = sampling.attribute(
                program.ids,
                baselines=program.baseline,
                feature_mask=torch.unique(players, return_inverse=True)[1][None],
                n_samples=self.samples,
                perturbations_per_eval=program.at_once,
            )
        # Captum gives a player's whole score to each of its tokens; the one that cannot change has none to give.
        return found[0]


@register(
    "gradient-shap@thermostat",
    family="gradient",
    needs={"forward"},
    paper=PAPER,
    cost="3 + 5, and 5 backwards",
    promise="nothing: gradients are taken at unrelated tokens; drawn from (seed, text)",
)
@dataclass(frozen=True)
class ThermoStatGradientShap(ThermoStatMethod):
    """Token ids themselves are interpolated and cut to whole numbers: five texts of unrelated tokens."""

    seed: int = 0

    def attributed(self, program: CaptumModel) -> Tensor:
        from captum.attr import LayerActivation, LayerGradientXActivation

        emb = program.embeddings
        plain = LayerGradientXActivation(program, emb, multiply_by_inputs=False)
        total = torch.zeros(())
        for share in torch.from_numpy(text_rng(self.seed, program.row).random(5)).float():
            ids = (share * program.ids.float() + (1 - share) * program.baseline.float()).long()
            total = total + plain.attribute(ids) / 5
        states = LayerActivation(program, emb)
        way = states.attribute(program.ids) - states.attribute(program.baseline)
        found: Tensor = (total * way)[0].sum(-1)
        return found


@register(
    "deeplift-shap@thermostat",
    family="gradient",
    needs={"forward"},
    paper=PAPER,
    cost="5, and 2 backwards",
    promise="signed; does not sum to the change from its baselines",
)
@dataclass(frozen=True)
class ThermoStatDeepLiftShap(ThermoStatMethod):
    """Two baselines, token 0 everywhere and padding; what captum's DeepLift is on transformers, see DeepLiftShap."""

    def attributed(self, program: CaptumModel) -> Tensor:
        from captum.attr import LayerDeepLiftShap

        baselines = torch.stack((torch.zeros_like(program.ids[0]), program.baseline[0]))
        with quiet_captum(program.model):
            found: Tensor = LayerDeepLiftShap(program, program.embeddings).attribute(
                program.ids.float(), baselines=baselines.float()
            )
        return found[0].sum(-1)


def _reserved(tokenizer: Any) -> Sequence[int]:
    """Every id that a tokenizer calls special, an unknown piece of text among them."""
    return [] if tokenizer is None else list(tokenizer.all_special_ids)
