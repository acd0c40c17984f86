"""Folders that other libraries saved: adapters of peft, models of sentence-transformers and SetFit.

Nothing is unpickled, and no code but that of the library itself is run.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from nbsal.model.loading import checkpoint
from nbsal.model.loading.saved_files import read_json
from nbsal.model.loading.wrappers.plain import check_adapter
from nbsal.support.errors import ModelError
from nbsal.support.lazy import transformers
from nbsal.support.warning import warn

ADAPTER, ADAPTER_WEIGHTS = checkpoint.ADAPTER, "adapter_model.safetensors"
SETFIT, MODULES = "config_setfit.json", "modules.json"
# Tasks of adapters, and what the names of classes with such a head end in.
TASKS = {
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "QUESTION_ANS": "ForQuestionAnswering",
    "CAUSAL_LM": "ForCausalLM",
}
_MODULE_CLASS = re.compile(r"sentence_transformers(\.\w+)+", re.ASCII)


def load_folder(source: str, dtype: torch.dtype) -> Any:
    """The model in a folder of another library, as that library loads it; None if the folder is not one."""
    folder = Path(source)
    if (folder / SETFIT).is_file():
        message = (
            f"{source} holds a SetFit model, whose model_head.pkl is a pickle, which nbsal never opens. Load it with "
            "setfit and pass the model."
        )
        raise ModelError(message, part="model_head.pkl")
    if (folder / ADAPTER).is_file():
        return _load_adapter(folder, dtype)
    if (folder / MODULES).is_file():
        return _load_sentence_transformers(folder, dtype)
    return None


def load_checkpoint(source: str, dtype: torch.dtype, head: str | None = None, trained: Any = None) -> Any:
    """The model in a folder or on the hub.

    `head` names the class of transformers for a checkpoint that was saved without that head. `trained` are the modules
    that something else brings along, with their numbers of outputs.
    """
    outputs = {"num_labels": next(reversed(trained.values()))} if head and trained else {}
    with checkpoint.readable(source, "model"):
        checkpoint.check(source, "model")
        config = checkpoint.read_config(source, "model")
        checkpoint.check_hub_config(source)
        model_class = getattr(transformers, head) if head else checkpoint.model_class(config, source)
        checkpoint.check_size(model_class.from_config if head else model_class, config, source)
        model, report = checkpoint.read_weights(model_class, source, dtype, "model", **outputs)
        checkpoint.check_unused(model, report["unexpected_keys"], source)
    checkpoint.check_missing(
        [name for name in report["missing_keys"] if not name.startswith(tuple(trained or ()))], source
    )
    return model


@contextmanager
def _library(name: str, hint: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ModelError(f"{hint} Install it: pip install {name}", part=name) from error


def _load_adapter(folder: Path, dtype: torch.dtype) -> Any:
    """The base model of an adapter, with the adapter in place."""
    with _library("peft", f"{folder} holds a PEFT adapter. Merge it and save the whole model, or use peft."):
        import peft
    with checkpoint.readable(str(folder), "model", "adapter"):
        settings = read_json(folder / ADAPTER)
        if settings.get("peft_type") not in list(peft.PeftType):
            raise ValueError(f"{ADAPTER} names no kind of adapter that peft knows")
        checkpoint.check_config(settings, str(folder))
        config = peft.PeftConfig.from_pretrained(str(folder))
    check_adapter(config, f"The adapter {folder}")
    if not (folder / ADAPTER_WEIGHTS).is_file():
        message = f"{folder} is an adapter without {ADAPTER_WEIGHTS}, the only weights that nbsal reads."
        raise ModelError(message, part="weights")
    base = _base_of(folder, config.base_model_name_or_path)
    trained = _trained_heads(folder)
    architectures = checkpoint.read_config(base, "model").architectures or [""]
    head = TASKS.get(config.task_type)
    lacks_head = head is not None and not architectures[0].endswith(head)
    model = load_checkpoint(base, dtype, f"AutoModel{head}" if lacks_head else None, trained)
    with checkpoint.readable(str(folder), "model", "adapter"):
        # Without autocast, half precision adapters would become float32 beside half precision weights.
        # On the meta device first: no more memory than the stored weights take, whatever rank the adapter claims.
        options: dict[str, Any] = {"autocast_adapter_dtype": False, "low_cpu_mem_usage": True}
        return peft.PeftModel.from_pretrained(model, str(folder), **options).eval()


def _base_of(folder: Path, base: str | None) -> str:
    if found := _find_base(folder, base):
        return found
    message = f"The adapter {folder} belongs to {base}, which is neither a folder nor in the cache. Pass the PeftModel."
    raise ModelError(message, part="base model")


def _find_base(folder: Path, base: str | None, **options: Any) -> str | None:
    """Where a base model is: as a folder says, or beside it; a hub id if it is in the cache."""
    from transformers.utils import cached_file

    places = [Path(base or "?"), folder / (base or "?"), folder.parent / Path(base or "?").name]
    for place in places:
        if (place / "config.json").is_file():
            return str(place)
    with suppress(OSError):
        if base and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", base) and cached_file(base, "config.json", **options):
            return base
    return None


def base_tokenizer(source: str) -> Any:
    """The tokenizer of what a folder without one was trained from, with a warning; None if that is not here."""
    for base in _bases(Path(source)):
        with suppress(ModelError):
            if (tokenizer := checkpoint.saved_tokenizer(base, "model")) is not None:
                warn(f"{source} has no tokenizer, so that of its base {base} is used. Pass tokenizer=... for another.")
                return tokenizer
    return None


def _bases(folder: Path) -> Iterator[str]:
    """Where a folder says that its model comes from, and the folder of the training run that saved it."""
    for file, name in ((ADAPTER, "base_model_name_or_path"), ("config.json", "_name_or_path")):
        base = read_json(folder / file).get(name) if (folder / file).is_file() else None
        if isinstance(base, str) and (found := _find_base(folder, base, local_files_only=True)):
            yield found
    if re.fullmatch(r"checkpoint-\d+", folder.resolve().name):
        yield str(folder.resolve().parent)


def _trained_heads(folder: Path) -> dict[str, int]:
    """The modules that an adapter replaces whole, such as a classifier, each with the rows of its last weight."""
    heads: dict[str, int] = {}
    with checkpoint.readable(str(folder), "model"), safe_open(folder / ADAPTER_WEIGHTS, framework="pt") as file:
        for name in sorted(file.keys()):
            if "lora_" not in name and name.endswith(".weight"):
                place = name.removeprefix("base_model.model.")
                heads[place.split(".")[0] + "."] = file.get_slice(name).get_shape()[0]
    return heads


def _load_sentence_transformers(folder: Path, dtype: torch.dtype) -> Any:
    """A SentenceTransformer or a CrossEncoder, whose modules are all of that library and have safe weights."""
    for module in _listed_modules(folder):
        place = folder / module.get("path", "")
        pickles = [path.name for path in place.iterdir() if path.suffix in checkpoint.PICKLES] if place.is_dir() else []
        if pickles and not any(place.glob("*.safetensors")):
            message = f"Weights must be safetensors, which run no code. {place} has {pickles[0]}."
            raise ModelError(message, part="weights")
        if (place / "config.json").is_file():
            with checkpoint.readable(str(folder), "model"):
                checkpoint.check_config(read_json(place / "config.json"), str(folder))
    with _library("sentence-transformers", f"{folder} holds a model of sentence-transformers."):
        import sentence_transformers
    settings = folder / "config_sentence_transformers.json"
    kind = read_json(settings).get("model_type") if settings.is_file() else None
    model_class = "CrossEncoder" if kind == "CrossEncoder" else "SentenceTransformer"
    options = {"device": "cpu", "local_files_only": True, "trust_remote_code": False, "model_kwargs": {"dtype": dtype}}
    with checkpoint.readable(str(folder), "model"):
        return getattr(sentence_transformers, model_class)(str(folder), **options).to(dtype).eval()


def _listed_modules(folder: Path) -> list[dict[str, Any]]:
    """The modules of a model, whose classes are those of the library: others would run code of the checkpoint."""
    try:
        modules = json.loads((folder / MODULES).read_text(encoding="utf-8"))
        names = [str(module["type"]) for module in modules]
        paths = [str(module.get("path", "")) for module in modules]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{folder / MODULES} lists no modules.", part=MODULES) from error
    for name, path in zip(names, paths, strict=True):
        if not _MODULE_CLASS.fullmatch(name) or not re.fullmatch(r"[\w.-]*", path) or path.startswith(".."):
            message = f"{folder} asks for the module {name!r:.60} in {path!r:.40}, which nbsal does not load."
            raise ModelError(message, part=MODULES)
    listed: list[dict[str, Any]] = modules
    return listed
