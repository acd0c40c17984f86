"""Loading: names, folders, hub ids and models in memory become subjects."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from nbsal.errors import InputError, LanguageHeadError, ModelError, UnknownName
from nbsal.model import architecture, lm_head, tokenize
from nbsal.model.lm_head import LMHead
from nbsal.model.subject import Subject


def load(
    model: Any,
    *,
    tokenizer: Any = None,
    lm: Any = None,
    labels: Sequence[str] | Mapping[int, str] | None = None,
    device: Any = None,
    dtype: str = "float32",
) -> Subject:
    """A subject from an embedded name ("demo/reviews"), a hub id, a local folder, or a model in memory.

    `lm` is the pretrained checkpoint (id, folder or model) whose LM head decodes hidden layers; "tied" decodes with the
    model's own input embeddings. Models with an LM head of their own need none. `dtype` says how to load weights; a
    model in memory stays as it is.

    >>> import nbsal
    >>> nbsal.load("demo/news").labels
    ['World', 'Sports', 'Business', 'Sci/Tech']
    """
    import transformers

    name, layer, own, mask = None, None, None, None
    if isinstance(model, str) and model.startswith("demo/"):
        from nbsal import samples

        name, layer, own = model, samples.DEFAULT_LAYER, samples.base.tokenizer()
        model = samples.build(name).to(_dtype(dtype))
        lm, mask = samples.build_lm() if lm is None else lm, samples.mask(name)
    elif isinstance(model, str | Path):
        name = str(model)
        model = _from_checkpoint(name, _dtype(dtype))
        own = _own_tokenizer(name)
    elif not isinstance(model, transformers.PreTrainedModel):
        raise InputError(f"A model is a name, a folder or a transformers model, not {type(model).__name__}.")
    elif Path(model.config.name_or_path or "?").is_dir():
        own = _own_tokenizer(model.config.name_or_path)
    model = _placed(model, device, own=name is None)
    architecture.check_device(model)
    architecture.check_weights(model)
    tokenizer = _named_tokenizer(str(tokenizer)) if isinstance(tokenizer, str | Path) else tokenizer
    if tokenizer is not None and not isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
        kinds = "a folder, a hub id or a transformers tokenizer"
        raise InputError(f"tokenizer is {kinds}, not {type(tokenizer).__name__}.")
    tokenize.check_tokenizer(model, tokenizer, own)
    tokenizer = tokenizer or own
    head = _find_lm_head(model, tokenizer, lm)
    return Subject(model, tokenizer, name=name, labels=labels, lm_head=head, default_layer=layer, mask=mask)


def _dtype(name: str) -> torch.dtype:
    valid = ("float32", "float64", "bfloat16", "float16")
    if str(name).removeprefix("torch.") not in valid:
        raise UnknownName("dtype", name, valid)
    return getattr(torch, str(name).removeprefix("torch."))  # type: ignore[no-any-return]


def _from_checkpoint(source: str, dtype: torch.dtype) -> Any:
    import transformers

    config = architecture.read_config(source)
    kind = getattr(transformers, (config.architectures or ["none"])[0], None)
    if kind is None:
        raise ModelError(f"{source} does not name an architecture that transformers knows: {config.architectures}.")
    model, report = architecture.read_weights(kind, source, dtype)
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise ModelError(f"{source} lacks weights of its own head ({missing}): its decisions would be random.")
    return model


def _own_tokenizer(source: str) -> Any:
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception:  # whatever is wrong with it: a model without a tokenizer still explains token ids
        return None


def _named_tokenizer(source: str) -> Any:
    found = _own_tokenizer(source)
    if found is None:
        raise InputError(f"No tokenizer was found at {source!r}: give a folder, a hub id or a tokenizer.")
    return found


def _placed(model: Any, device: Any, own: bool) -> Any:
    """A model on the device asked for; one in memory is the user's `own`, and is never moved."""
    try:
        wanted = None if device is None else torch.device(device)
        if not own:
            return model.to(wanted or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InputError(f"device={device!r} cannot be used here: {str(error).splitlines()[0]}") from error
    if wanted is not None and (wanted.type, wanted.index or 0) != (model.device.type, model.device.index or 0):
        raise InputError(f"The model lies on {model.device}; a model in memory stays there: call model.to({device!r}).")
    return model


def _find_lm_head(model: Any, tokenizer: Any, lm: Any) -> LMHead | None:
    if isinstance(lm, str) and lm == "tied":
        return lm_head.tied(model)
    if lm is None:
        own = architecture.task(model) == "next-token"
        return lm_head.from_model(model, "its own LM head") if own else None
    from transformers import PreTrainedModel

    if not isinstance(lm, str | Path | PreTrainedModel):
        kinds = "a checkpoint's id or folder, a transformers model, or 'tied'"
        raise InputError(f"lm is {kinds}, not {type(lm).__name__}.")
    source = str(lm) if isinstance(lm, str | Path) else lm.config.name_or_path or type(lm).__name__
    pretrained = lm_head.load(source) if isinstance(lm, str | Path) else lm
    head = lm_head.from_model(pretrained, source)
    lm_head.check_fits(head, architecture.width(pretrained), model)
    theirs = _own_tokenizer(source) if isinstance(lm, str | Path) else None
    if theirs is not None and tokenizer is not None and theirs.get_vocab() != tokenizer.get_vocab():
        raise LanguageHeadError(f"{source} numbers its tokens otherwise than the model: it has another vocabulary.")
    return head
