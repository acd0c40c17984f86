"""Pipelines of transformers: their model and tokenizer, with how they cut texts and turn logits into probabilities."""

from dataclasses import replace
from typing import Any

from nbsal.model.loading.usage import OpenedModel, Preprocessing, zero_shot
from nbsal.support.errors import InputError, ModelError

ZERO_SHOT, TEMPLATE = "ZeroShotClassificationPipeline", "This example is {}."
CLASSIFIES_TEXT = "TextClassificationPipeline"
KINDS = (CLASSIFIES_TEXT, "TokenClassificationPipeline", "FillMaskPipeline", "TextGenerationPipeline")


def open_pipeline(pipeline: Any, opened: OpenedModel, labels: Any) -> OpenedModel:
    """The model of a pipeline, used as the pipeline uses it; `opened` is what its model alone is."""
    names = [base.__name__ for base in type(pipeline).mro()]
    if ZERO_SHOT in names:
        return _open_zero_shot(pipeline, opened, labels)
    name = next((name for name in names if name in KINDS), None)
    if name is None:
        message = f"A {type(pipeline).__name__} decides nothing that nbsal explains. Pass its model and its tokenizer."
        raise ModelError(message, part="pipeline")
    before, after = pipeline._preprocess_params, pipeline._postprocess_params
    tokenizer_options = before | before.get("tokenizer_kwargs", {})
    longest = tokenizer_options.get("max_length") if tokenizer_options.get("truncation") else None
    activation = _activation(pipeline.model.config, after.get("function_to_apply"))
    usage = Preprocessing(longest, opened.usage.prompt, activation if name == CLASSIFIES_TEXT else None)
    return replace(opened, tokenizer=pipeline.tokenizer, usage=usage)


def _open_zero_shot(pipeline: Any, opened: OpenedModel, labels: Any) -> OpenedModel:
    """The model of entailment of a zero-shot pipeline, with the labels that it or the caller names."""
    before = pipeline._preprocess_params
    candidates = list(labels) if labels is not None else before.get("candidate_labels")
    if not candidates:
        message = "Zero-shot needs labels. Pass nbsal.load(pipeline, labels=[...]) or pipeline(candidate_labels=[...])."
        raise InputError(message, argument="labels", value=labels)
    template = before.get("hypothesis_template", TEMPLATE)
    several = pipeline._postprocess_params.get("multi_label", False)
    choice = zero_shot(candidates, template, pipeline.model.config, several)
    usage = Preprocessing(None, "", "sigmoid" if choice.contrasts else "softmax", choice)
    return replace(opened, tokenizer=pipeline.tokenizer, labels=candidates, usage=usage)


def _activation(config: Any, function: Any) -> str | None:
    """What a text-classification pipeline makes of the logits; None where that is what the model says."""
    if function is not None:
        return str(function.value)
    one = config.num_labels == 1 and config.problem_type != "regression"
    return "sigmoid" if one else None
