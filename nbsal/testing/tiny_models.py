"""Tiny random models with tokenizers, which load in a moment and on which checks of methods are quick."""

import math
from collections import Counter
from functools import cache
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

import nbsal
from nbsal.heads import HeadMask
from nbsal.model.subject import Subject
from nbsal.support.errors import UnknownName

CORPUS = [
    "The film is a warm and funny joy from start to end.",
    "A dull, endless bore that nobody needs; the plot hardly moves.",
    "Prices fell on Monday after the company reported a loss.",
    "The striker scored twice and the visitors won the final.",
    "Who wrote the book about the river and the mountain?",
]
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
# Weights are larger than usual: otherwise the output of tiny models hardly depends on their input.
COMMON = {"initializer_range": 0.15, "max_position_embeddings": 64}
Architecture = tuple[str, dict[str, Any], str]  # the class of its configuration, its settings, its kind of tokenizer
ARCHITECTURES: dict[str, Architecture] = {
    "bert": ("BertConfig", SIZES, "wordpiece"),
    "roberta": ("RobertaConfig", SIZES | {"pad_token_id": 0, "type_vocab_size": 1}, "bytes"),
    "llama": ("LlamaConfig", SIZES | {"num_key_value_heads": 2}, "pieces"),
}
HEADS = {
    "sequence": "AutoModelForSequenceClassification",
    "span": "AutoModelForQuestionAnswering",
    "token": "AutoModelForTokenClassification",
    "masked": "AutoModelForMaskedLM",
    "causal": "AutoModelForCausalLM",
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# The attention heads that methods which need a head mask propagate through.
MASK = HeadMask.from_array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 1]])


def pieces() -> list[tuple[str, float]]:
    """Letters and frequent parts of words of the corpus, with log-probabilities.

    A trainer would break ties at random, so that every run would test different inputs.
    """
    words = [f"▁{word}" for text in CORPUS for word in text.split()]
    spans = [word[i:j] for word in words for i in range(len(word)) for j in range(i + 1, min(len(word), i + 5) + 1)]
    counts = Counter(spans)
    single = sorted(piece for piece in counts if len(piece) == 1)
    longer = sorted(
        (piece for piece in counts if len(piece) > 1), key=lambda piece: (-counts[piece] * len(piece), piece)
    )
    return [(piece, math.log(counts[piece] / len(spans))) for piece in single + longer[:80]]


def wordpieces() -> list[str]:
    """The same parts in WordPiece notation."""
    starts = {piece[1:].lower() for piece, _ in pieces() if piece.startswith("▁")}
    inner = {piece.lower() for piece, _ in pieces() if not piece.startswith("▁")}
    letters = {piece for piece in inner if len(piece) == 1}
    return sorted((starts | letters) - {""}) + sorted(f"##{piece}" for piece in inner)


@cache
def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """A small tokenizer of that kind: "wordpiece", "bytes" (byte-level BPE) or "pieces" (SentencePiece).

    >>> tokenizer("wordpiece").mask_token
    '[MASK]'
    """
    if kind == "wordpiece":
        vocabulary = {piece: i for i, piece in enumerate(SPECIAL + wordpieces())}
        result = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        result.normalizer = normalizers.BertNormalizer(lowercase=True)
        result.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        result.decoder = decoders.WordPiece()
        result.add_special_tokens(SPECIAL)
    elif kind == "bytes":
        result = Tokenizer(models.BPE())
        result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        result.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        options: dict[str, Any] = {"special_tokens": SPECIAL, "initial_alphabet": alphabet, "show_progress": False}
        result.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=320, **options))
    else:
        result = Tokenizer(models.Unigram([(special, 0.0) for special in SPECIAL] + pieces(), unk_id=1))
        result.normalizer = normalizers.NFKC()
        result.pre_tokenizer = pre_tokenizers.Metaspace()
        result.decoder = decoders.Metaspace()
        result.add_special_tokens(SPECIAL)
    cls, sep = result.token_to_id("[CLS]"), result.token_to_id("[SEP]")
    result.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )
    names: dict[str, Any] = dict(
        zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True)
    )
    types = ["token_type_ids"] if kind == "wordpiece" else []  # as BERT's tokenizer, and the other two do not
    names["model_input_names"] = ["input_ids", *types, "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=result, model_max_length=64, **names)


def config(architecture: Architecture, **settings: Any) -> Any:
    """The tiny configuration of an architecture."""
    config_class, sizes, tokenizer_kind = architecture
    size = len(tokenizer(tokenizer_kind))
    has_maximum = config_class != "XLNetConfig"
    common = {key: value for key, value in COMMON.items() if has_maximum or "max" not in key}
    ids = {"vocab_size": size, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    result = getattr(transformers, config_class)(**common | ids | sizes | settings)
    result.vocab_size = size
    return result


def build(architecture: Architecture, head: str, seed: int = 0, **settings: Any) -> Any:
    """A random model of that architecture with that head; the caller's random generator is left as it is."""
    settings = {"num_labels": 2 if head == "span" else 3} | settings
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed accelerators and not restore them
        return getattr(transformers, HEADS[head]).from_config(config(architecture, **settings)).eval()


def load(name: str, head: str = "sequence") -> Subject:
    """A subject of one of `ARCHITECTURES` with a tokenizer, an LM head and a head mask, in float64.

    >>> load("bert").labels
    ['LABEL_0', 'LABEL_1', 'LABEL_2']
    """
    if name not in ARCHITECTURES:
        raise UnknownName("name", name, ARCHITECTURES)
    architecture = ARCHITECTURES[name]
    alone = head in ("causal", "masked")
    lm = None if alone else build(architecture, "causal" if name == "llama" else "masked", seed=1).double()
    model = build(architecture, head).double()
    model.name_or_path = model.config.name_or_path = f"tiny {name}"
    subject = nbsal.load(model, tokenizer=tokenizer(architecture[2]), lm=lm)
    subject.mask = MASK
    subject.default_layer = 1  # the last layers of so small a Llama are read through norms only: scores would be noise
    return subject
