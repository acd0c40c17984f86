"""Language models in GGUF files, as llama.cpp reads them, with the weights that their few bits stand for."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from tokenizers import Tokenizer

from nbsal.model.loading import checkpoint
from nbsal.support.errors import ModelError, file_error
from nbsal.support.lazy import transformers

SUFFIX = ".gguf"
_SERVED = "Or serve the model, and pass nbsal.Endpoint(url, model=...)."


def is_gguf(source: str) -> bool:
    """Whether a source is the path of such a file."""
    return source.lower().endswith(SUFFIX) and not Path(source).is_dir()


def load_gguf(source: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """The model in a file, and its tokenizer."""
    path = Path(source).expanduser()
    if not path.is_file():
        raise file_error("model", source, FileNotFoundError(2, "No such file", source))
    try:
        import accelerate  # noqa: F401 - transformers needs it
        import gguf
    except ImportError as error:
        message = f"{source} is a GGUF file. To read it, install: pip install gguf accelerate. {_SERVED}"
        raise ModelError(message, part="gguf") from error
    place, options = str(path.parent), {"gguf_file": path.name, "trust_remote_code": False}
    with checkpoint.readable(source, "model"), _read_once(gguf):
        config = transformers.AutoConfig.from_pretrained(place, **options)
        settings = json.loads(config.to_json_string())
        checkpoint.check_config(settings, source)
        checkpoint.check_blocks(settings, 0, source)
        causal = transformers.AutoModelForCausalLM
        checkpoint.check_size(causal.from_config, config, source)
        plain = {"quantization_config": transformers.GgufConfig(dequantize=True), "dtype": dtype}
        model, report = causal.from_pretrained(place, config=config, output_loading_info=True, **plain, **options)
        checkpoint.check_missing(report["missing_keys"], source)
        model.config.name_or_path = source
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, **options)
        return model.eval(), _without_others(tokenizer, config.vocab_size)


def _without_others(tokenizer: Any, size: int) -> Any:
    """A tokenizer without the tokens that its class adds to those of the file, which the model has no rows for."""
    if len(tokenizer) <= size:
        return tokenizer
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    parts["added_tokens"] = [token for token in parts["added_tokens"] if token["id"] < size]
    roles = {name: token for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
    kept = {name: token for name, token in roles.items() if tokenizer.convert_tokens_to_ids(token) < size}
    backend, template = Tokenizer.from_str(json.dumps(parts)), tokenizer.chat_template
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=template, **kept)


@contextmanager
def _read_once(gguf: ModuleType) -> Iterator[None]:
    """While transformers reads a file, keep what it asks for several times, which takes seconds; show no progress."""
    from transformers import modeling_gguf_pytorch_utils as reader
    from transformers.utils import logging

    shows_progress = logging.is_progress_bar_enabled()
    replaced = [
        (gguf, "GGUFReader", cache(gguf.GGUFReader)),
        (gguf, "get_tensor_name_map", cache(gguf.get_tensor_name_map)),
        (reader, "tqdm", lambda tensors, **_: tensors),  # the bar that transformers cannot switch off
    ]
    replaced = [each for each in replaced if hasattr(*each[:2])]  # another version may have no such name
    originals = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    try:
        logging.disable_progress_bar()
        for module, name, value in replaced:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in originals:
            setattr(module, name, value)
        if shows_progress:
            logging.enable_progress_bar()
