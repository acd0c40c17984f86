"""Where each algorithm and numbered equation of the two papers is in nbsal's code."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Formula:
    """An algorithm or a numbered equation of a paper, and the full names of what computes it.

    `state` says what differs from the paper; it is empty where nothing does.

    >>> DECODING[-1].number, DECODING[-1].code
    ('Algorithm 1', ('nbsal.methods.decoding.Decoded',))
    """

    number: str
    title: str
    code: tuple[str, ...]
    state: str = ""


GRADCAM, HEAD = "nbsal.methods.gradient.GradCAM", "nbsal.model.lm_head.LMHead"
DECODING = (
    Formula("Equation 1", "scores of the features of a layer", (f"{GRADCAM}.features",)),
    Formula("Equation 2", "scores of positions", (f"{GRADCAM}.aggregate",)),
    Formula(
        "Equation 3", "the best map from a layer to tokens", (HEAD,),
        "no code minimises it: the LM head stands in for the minimum, as in the paper",
    ),
    Formula("Equation 4", "the LM head's probabilities as a map to tokens", (f"{HEAD}.probabilities",)),
    Formula("Equation 5", "self-attention", ("nbsal.trace.record",), "transformers computes it; a trace records it"),
    Formula(
        "Equation 6", "decoded scores", ("nbsal.methods.decoding.Decoded",),
        'form="per_token"; the default is line 9 of Algorithm 1',
    ),
    Formula("Algorithm 1", "decoding", ("nbsal.methods.decoding.Decoded",)),
)  # fmt: skip
RULES, MASK_LRP = "nbsal.passes.lrp.rules", "nbsal.methods.relevance.MaskSettings"
MASK_LRP_FORMULAS = (
    Formula("Equation 1", "the chain rule of gradients", ("nbsal.trace.record",), "torch.autograd computes it"),
    Formula("Equation 2", "the rule for products", (f"{RULES}.MatMul",)),
    Formula("Equation 3", "conservation", ("nbsal.figures.relevance.conservation",), "tested for every rule"),
    Formula("Equation 4", "the rule for linear layers", (f"{RULES}.Linear",)),
    Formula("Equation 5", "relevance of syntactic and positional heads", ("nbsal.model.head_mask.HeadMask.parts",)),
    Formula("Equation 6", "the mask as a sum", ("nbsal.model.head_mask.HeadMask.selected",), "a union by default"),
    Formula(
        "Equation 7", "syntactic heads", ("nbsal.heads.statistics.HeadStudy.mask",),
        "a head counts once; weighted=True counts its relations",
    ),
    Formula("Equation 8", "positional heads", ("nbsal.heads.statistics.HeadStudy.mask",)),
    Formula("Equation 9", "relevance through the mask", (MASK_LRP,), "mask-lrp@equations to the letter"),
    Formula(
        "Equation 10", "the map of a block", ("nbsal.methods.relevance.TransformerAttribution.evidence",),
        "mask-lrp@equations to the letter",
    ),
    Formula("Equation 11", "rollout", ("nbsal.methods.relevance.TransformerAttribution.scores",)),
    Formula("Equation 12", "AOPC", ("nbsal.evaluation._faithfulness.faithfulness",)),
    Formula("Equation 13", "log-odds", ("nbsal.evaluation._faithfulness.faithfulness",)),
)  # fmt: skip
