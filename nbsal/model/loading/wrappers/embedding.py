"""Embeddings compared with a reference, of sentence-transformers or of a model without a head; rerankers of pairs."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from nbsal.model.loading.composite import Composite, find_transformer
from nbsal.model.loading.kinds import check_kind
from nbsal.model.loading.usage import LoadArguments, OpenedModel, Preprocessing
from nbsal.model.running import architecture
from nbsal.model.running.twin import twin_of
from nbsal.support.errors import InputError, ModelError, UnknownName
from nbsal.support.lazy import transformers

POOLINGS = ("mean", "first", "last")
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


def open_cross_encoder(encoder: Any, request: LoadArguments) -> OpenedModel:
    """The classifier of a CrossEncoder, whose scores are explained before its activation, or a causal reranker."""
    usage = Preprocessing(encoder.max_seq_length, _prompt(encoder))
    modules = [module for module in encoder if type(module).__name__ != "Transformer"]
    activation = type(encoder.activation_fn).__name__
    score = "score" if activation == "Identity" else f"score before {activation}"
    if not modules:
        labels = [score] if encoder.num_labels == 1 else None
        return OpenedModel(encoder.transformers_model, encoder.tokenizer, labels, usage)
    names = [type(module).__name__ for module in modules]
    if names != ["LogitScore"]:
        message = f"The scores of {type(encoder).__name__} come from {' and '.join(names)}, which nbsal cannot read."
        raise ModelError(message, part="head")
    reranker = Reranker(encoder.transformers_model, modules[0].true_token_id, modules[0].false_token_id)
    return OpenedModel(Composite(reranker, "model"), encoder.tokenizer, [score], usage)


def open_sentence_transformer(model: Any, request: LoadArguments) -> OpenedModel:
    """An embedding model, whose similarity to a reference text is explained."""
    if request.similar_to is None:
        message = (
            f"A {type(model).__name__} has no labels. Explain its similarity to a text with "
            "nbsal.load(model, similar_to=...), or pass a module with a head."
        )
        raise InputError(message, argument="similar_to", value=None)
    twin = twin_of(model)
    with torch.no_grad():
        reference = twin.run(
            lambda: twin.module.encode([request.similar_to], convert_to_tensor=True, show_progress_bar=False)
        )
    head = Similarity(reference.clone(), model.similarity_fn_name)
    return open_embedding(model, head, normalize=False, labels=["similarity"], activation="none")


def is_body(model: Any) -> bool:
    """True for the embeddings and blocks of a transformers model of text, without a head."""
    if (
        not isinstance(model, transformers.PreTrainedModel)
        or model.config.is_encoder_decoder
        or model.base_model is not model
    ):
        return False
    return not type(model).__name__.endswith(tuple(architecture.TASKS))


def open_body(model: Any, request: LoadArguments) -> OpenedModel:
    """A model without a head, whose pooled states are compared with those of a reference text."""
    pooling, text, tokenizer = request.pooling or "mean", request.similar_to, request.tokenizer
    if pooling not in POOLINGS:
        raise UnknownName("pooling", pooling, POOLINGS)
    check_kind(model)
    if tokenizer is None:
        message = f"similar_to={text!r:.60} must be tokenized, but {type(model).__name__} came without a tokenizer."
        raise InputError(f"{message} Pass tokenizer=...", argument="tokenizer", value=None)
    longest = architecture.max_length(model, tokenizer)
    inputs = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt").to(model.device)
    module = PooledBody(model, pooling)
    twin = twin_of(module)
    with torch.no_grad():
        module.head = Similarity(twin.run(lambda: twin.module(**inputs)).clone(), "cosine")
    return OpenedModel(Composite(module, "body"), tokenizer, ["similarity"], Preprocessing(activation="none"))


class PooledBody(nn.Module):
    """A model without a head, and a head on its pooled states."""

    def __init__(self, body: Any, pooling: str) -> None:
        super().__init__()
        self.body = body
        self.pooling = pooling
        self.head: nn.Module = nn.Identity()
        parameters = inspect.signature(body.forward).parameters
        self.options = {"use_cache": False} if "use_cache" in parameters else {}
        self.names = set(parameters)

    def forward(self, **inputs: Tensor) -> Tensor:
        """What the head makes of the pooled states, [text, label]."""
        logits: Tensor = self.head(self.embed(**inputs))
        return logits

    def embed(self, **inputs: Tensor) -> Tensor:
        """The pooled states, [text, feature]; texts are padded on the right."""
        inputs = {name: tensor for name, tensor in inputs.items() if name in self.names}
        states, mask = self.body(**inputs, **self.options).last_hidden_state, inputs["attention_mask"]
        pooled: Tensor
        if self.pooling == "mean":
            lengths = mask.sum(1, keepdim=True)
            pooled = (states * mask[..., None].to(states.dtype)).sum(1) / lengths.to(states.dtype)
        elif self.pooling == "first":
            pooled = states[:, 0]
        else:
            last = mask.shape[1] - 1 - mask.flip(1).argmax(1)
            pooled = states[torch.arange(len(states), device=states.device), last]
        return pooled


def open_embedding(body: Any, head: nn.Module, normalize: bool, labels: Any, activation: str) -> OpenedModel:
    prompt = _prompt(body)
    module = EmbeddingClassifier(body, head, normalize, _prompt_length(body, prompt))
    path = find_transformer(module.body)
    usage = Preprocessing(body.max_seq_length, prompt, activation)
    return OpenedModel(Composite(module, f"body.{path}"), body.tokenizer, labels, usage)


class EmbeddingClassifier(nn.Module):
    """A SentenceTransformer and a head: the logits of its embeddings as `encode` makes them."""

    def __init__(self, body: Any, head: nn.Module, normalize: bool, prompt_length: int | None) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.normalize = normalize
        self.prompt_length = prompt_length  # tokens that the pooling may leave out

    def forward(self, **inputs: Tensor) -> Tensor:
        """The logits, [text, label]."""
        logits: Tensor = self.head(self.embed(**inputs))
        return logits

    def embed(self, **inputs: Tensor) -> Tensor:
        """The embeddings, [text, feature]."""
        features: dict[str, Any] = dict(inputs)
        if self.prompt_length is not None:
            features["prompt_length"] = self.prompt_length
        embedding: Tensor = self.body(features)["sentence_embedding"]
        if self.body.truncate_dim is not None:
            embedding = embedding[:, : self.body.truncate_dim]
        if self.normalize:
            embedding = functional.normalize(embedding, dim=1)
        return embedding


class Similarity(nn.Module):
    """The similarity to a fixed embedding, as one logit; distances are negative."""

    def __init__(self, reference: Tensor, function: str) -> None:
        super().__init__()
        if function not in SIMILARITIES:
            message = f"nbsal knows no similarity {function!r}. It has {', '.join(SIMILARITIES)}."
            raise ModelError(message, part="similarity")
        self.function = function
        self.register_buffer("reference", functional.normalize(reference) if function == "cosine" else reference)

    def forward(self, embedding: Tensor) -> Tensor:
        """The similarity of each embedding, [text, 1]."""
        reference: Tensor = self.reference  # type: ignore[assignment]
        if self.function == "cosine":
            embedding = functional.normalize(embedding)
        if self.function in ("cosine", "dot"):
            return functional.linear(embedding, reference)
        order = 2 if self.function == "euclidean" else 1
        distance: Tensor = torch.linalg.vector_norm(embedding - reference, ord=order, dim=-1, keepdim=True)
        return -distance


class Reranker(nn.Module):
    """A causal model that answers yes or no: the logit of the one token minus that of the other, at the last token."""

    def __init__(self, model: Any, true_token: int, false_token: int | None) -> None:
        super().__init__()
        self.model = model
        self.tokens = [true_token] if false_token is None else [true_token, false_token]
        self.register_buffer("signs", torch.tensor([[1.0, -1.0][: len(self.tokens)]], dtype=model.dtype))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The scores, [text, 1]; texts are padded on the right."""
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits
        last = attention_mask.shape[1] - 1 - attention_mask.flip(1).argmax(1)
        answers = logits[torch.arange(len(logits), device=logits.device), last][:, self.tokens]
        signs: Tensor = self.signs  # type: ignore[assignment]
        return functional.linear(answers, signs)


def _prompt(model: Any) -> str:
    """The prompt that the library puts before each text when it is asked for none."""
    return str((model.prompts or {}).get(model.default_prompt_name) or "")


def _prompt_length(model: Any, prompt: str) -> int | None:
    """The number of tokens of a prompt, where the library counts them."""
    length = model.preprocess(["a"], prompt=prompt).get("prompt_length") if prompt else None
    return None if length is None else int(length)
