"""Find the parts of a stock transformers model: blocks, final norm, task of the head, pooling, maximum length."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from nbsal.model import encoder_decoder
from nbsal.model.loading.composite import Composite
from nbsal.model.loading.stand_in import StandIn
from nbsal.model.running.hooks import record_layers
from nbsal.model.running.twin import copy_model, precision_errors, twin_of
from nbsal.support.errors import ModelError

TASKS = {
    "ForSequenceClassification": "sequence",
    "ForQuestionAnswering": "span",
    "ForTokenClassification": "token",
    "ForCausalLM": "next-token",
    "LMHeadModel": "next-token",
    "ForMaskedLM": "masked",
}
META_DEVICE = "is on the meta device, which holds no numbers. Load the whole model, without device_map or offloading."
_UNLIMITED = 10**9  # tokens; some architectures have no maximum length


def task(model: nn.Module) -> str:
    """The task of the model's own head: "sequence", "span", "token", "next-token", "masked" or "reply"."""
    if isinstance(model, Composite | StandIn):
        return model.task
    name = type(model).__name__
    if encoder_decoder.writes_replies(model):
        return encoder_decoder.REPLY
    for suffix, task_name in TASKS.items():
        if name.endswith(suffix):
            return task_name
    raise ModelError(
        f"{name} has no head whose output could be explained. Pass a model for sequence classification, question "
        "answering, token classification or language modelling, a module with a head around it, or, for the similarity "
        'to a text, similar_to="a text" with pooling="mean", "first" or "last".',
        part="head",
    )


def body(model: Any, side: str = encoder_decoder.SOURCE) -> nn.Module:
    """The embeddings and blocks of a model, without its head: of an encoder-decoder, those of one side."""
    if encoder_decoder.writes_replies(model):
        half: nn.Module = model.get_encoder() if side == encoder_decoder.SOURCE else model.get_decoder()
        return half
    base: nn.Module = model.base_model
    return base


def blocks(model: Any, side: str = encoder_decoder.SOURCE) -> list[nn.Module]:
    """The block modules in the order they are called; ALBERT calls the same module repeatedly."""
    base, depth = body(model, side), encoder_decoder.depth(model, side)
    lists = [(name, module) for name, module in base.named_modules() if isinstance(module, nn.ModuleList)]
    for _, candidates in sorted(lists, key=lambda pair: pair[0].count(".")):
        if len(candidates) == depth:
            return list(candidates)
    shared = next((module for name, module in lists if name.endswith("layer_groups")), None)
    if shared is not None:
        return list(shared)
    raise ModelError(f"{type(model).__name__} contains no list of {depth} blocks.", part="blocks")


@torch.no_grad()
def final_norm(model: Any) -> str | None:
    """The name of the norm between the last block and the head (pre-norm models), found by comparing outputs."""
    twin = twin_of(model)
    ids = torch.arange(4, device=model.device)[None] % model.config.vocab_size

    def find() -> str | None:
        layers, output = _run_body(twin.module, ids)
        if torch.equal(layers[-1], output):
            return None
        names = {module: name for name, module in twin.module.named_modules()}
        for module in body(twin.module).modules():
            weight = getattr(module, "weight", None)
            if weight is not None and weight.shape == output.shape[-1:] and torch.allclose(module(layers[-1]), output):
                return str(names[module])
        raise ModelError(
            f"{type(model).__name__} changes the output of its last block before the head by something other than a "
            "single norm. nbsal cannot decode its layers.",
            part="final norm",
        )

    name: str | None = twin.run(find)
    return name


def max_length(model: Any, tokenizer: Any) -> int:
    """The maximum number of tokens the model reads."""
    limit = int(getattr(model.config, "max_position_embeddings", 0) or 0)
    limit = limit if limit > 0 else _UNLIMITED
    for table in _offset_position_tables(model):
        limit = len(table.weight) - int(table.padding_idx) - 1
    return min(limit, tokenizer.model_max_length if tokenizer is not None else limit)


def first_position(model: Any) -> int:
    """The position id of the first token."""
    return next((int(table.padding_idx) + 1 for table in _offset_position_tables(model)), 0)


def shared_tensors(model: nn.Module) -> dict[int, Any]:
    """A memo for `copy.deepcopy` that copies modules but shares weights, so that the copy trains with the model."""
    return {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}


def with_exact_gelu(model: Any) -> Any:
    """A copy of the model, sharing its weights, with exact GELU in place of the tanh approximation, if it has that."""
    from transformers.activations import NewGELUActivation

    result = copy_model(model, lambda tensor: tensor)
    for module in list(result.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, NewGELUActivation):
                setattr(module, name, nn.GELU())
    return result


def _offset_position_tables(model: Any) -> list[Any]:
    """The position embeddings of RoBERTa and its relatives, which start counting after the padding id."""
    modules = body(model).named_modules()
    tables = [module for name, module in modules if name.endswith("position_embeddings")]
    return [table for table in tables if getattr(table, "padding_idx", None) is not None]


def pooling(model: Any, task_name: str, causal: bool) -> str | None:
    """Which positions a sequence head reads: "first", "last" (of the text) or "mean"; None for other heads."""
    if task_name != "sequence":
        return None
    declared = getattr(model.config, "classifier_pooling", None)
    if declared:
        return "first" if declared == "cls" else "mean"
    return _summary_type(model) or ("last" if causal else "first")


def sees_padding(model: Any) -> bool:
    """True if padding changes the output: the model takes no attention mask (FNet) or pools over padding (XLNet)."""
    has_mask = "attention_mask" in inspect.signature(body(model).forward).parameters
    return not has_mask or _summary_type(model) in ("last", "mean")


def _summary_type(model: nn.Module) -> str | None:
    """The pooling of XLNet's SequenceSummary module, if the model has one."""
    summaries = [module for module in model.modules() if type(module).__name__.endswith("SequenceSummary")]
    return str(summaries[0].summary_type) if summaries else None


@torch.no_grad()
def is_causal(model: Any) -> bool:
    """True if a position sees only itself and earlier positions.

    Most attention modules declare this. For models without such a declaration, change a later token and compare.
    """
    base, size = body(model), model.config.vocab_size
    declared = {module.is_causal for module in base.modules() if isinstance(getattr(module, "is_causal", None), bool)}
    if declared:
        return True in declared
    ids = torch.tensor([[size - 1, size - 2, size - 3], [size - 1, size - 2, size - 4]], device=model.device)
    twin = twin_of(model)
    _, (first, second) = twin.run(lambda: _run_body(twin.module, ids))
    return bool(torch.allclose(first[0], second[0], rtol=1e-4, atol=1e-6))


def _run_body(model: Any, ids: Tensor) -> tuple[list[Tensor], Tensor]:
    """The hidden states and the output of a model's body; without a mask some models warn that ids may be padding."""
    with record_layers(model, blocks(model)) as layers, precision_errors(model):
        output = body(model)(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=True)
    return layers, output.last_hidden_state


def check_device(model: Any) -> None:
    """Refuse the meta device."""
    if model.device.type == "meta":
        raise ModelError(f"{type(model).__name__} {META_DEVICE}", part="device")
