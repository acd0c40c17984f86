"""Tiny random models of many architectures, saved and loaded as checkpoints."""

import math
from collections import Counter
from functools import cache
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import trainers as training
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "The film is a warm and funny joy from start to end.",
    "A dull, endless bore that nobody needs; the plot hardly moves.",
    "Prices fell on Monday after the company reported a loss.",
    "The striker scored twice and the visitors won the final.",
    "Who wrote the book about the river and the mountain?",
]
SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
# Weights are larger than usual: otherwise the output of tiny models hardly depends on their input.
COMMON = {"initializer_range": 0.15, "max_position_embeddings": 64}
ENCODERS = {
    "bert": ("BertConfig", SIZES, "wordpiece"),
    "roberta": ("RobertaConfig", SIZES | {"pad_token_id": 0, "type_vocab_size": 1}, "bytes"),
    "distilbert": ("DistilBertConfig", {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}, "wordpiece"),
    "electra": ("ElectraConfig", SIZES | {"embedding_size": 16}, "wordpiece"),
    "albert": ("AlbertConfig", SIZES | {"embedding_size": 16}, "pieces"),
    "deberta-v2": (
        "DebertaV2Config",
        SIZES | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
        "pieces",
    ),
    "mpnet": ("MPNetConfig", SIZES | {"pad_token_id": 0}, "wordpiece"),
    "xlm-roberta": ("XLMRobertaConfig", SIZES | {"pad_token_id": 0, "type_vocab_size": 1}, "pieces"),
    "modernbert": (
        "ModernBertConfig",
        SIZES | {"pad_token_id": 0, "local_attention": 16, "global_attn_every_n_layers": 2},
        "bytes",
    ),
}
DECODERS = {
    "gpt2": ("GPT2Config", {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}, "bytes"),
    "llama": ("LlamaConfig", SIZES | {"num_key_value_heads": 2}, "pieces"),
    "qwen3": ("Qwen3Config", SIZES | {"num_key_value_heads": 2, "head_dim": 8}, "bytes"),
}
ARCHITECTURES = ENCODERS | DECODERS
FIRST_POSITION = {
    "roberta": 1,
    "xlm-roberta": 1,
    "mpnet": 2,
}  # the position after the padding id; MPNet's padding id is 1 whatever its configuration says
HEADS = {
    "sequence": "AutoModelForSequenceClassification",
    "span": "AutoModelForQuestionAnswering",
    "token": "AutoModelForTokenClassification",
    "masked": "AutoModelForMaskedLM",
    "causal": "AutoModelForCausalLM",
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


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
    """A small tokenizer of that kind: "wordpiece", "bytes" (byte-level BPE) or "pieces" (SentencePiece)."""
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
        options = {"special_tokens": SPECIAL, "initial_alphabet": alphabet, "show_progress": False}
        result.train_from_iterator(CORPUS, training.BpeTrainer(vocab_size=320, **options))
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
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    types = ["token_type_ids"] if kind == "wordpiece" else []  # as BERT's tokenizer, and the other two do not
    names["model_input_names"] = ["input_ids", *types, "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=result, model_max_length=64, **names)


def config(name: str, **settings):
    """The tiny configuration of an architecture."""
    config_class, sizes, tokenizer_kind = ARCHITECTURES[name]
    size = len(tokenizer(tokenizer_kind))
    ids = {"vocab_size": size, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    if name == "modernbert":
        ids |= {"cls_token_id": 2, "sep_token_id": 3}
    result = getattr(transformers, config_class)(**COMMON | ids | sizes | settings)
    result.vocab_size = size
    return result


def model(name: str, head: str, seed: int = 0, **settings):
    """A random model of that architecture with that head."""
    torch.manual_seed(seed)
    settings = {"num_labels": 2 if head == "span" else 3} | settings
    return getattr(transformers, HEADS[head]).from_config(config(name, **settings)).eval()


def lm_head(name: str) -> str:
    """The kind of LM head of an architecture."""
    return "causal" if name in DECODERS else "masked"


def save(folder: Path, name: str, head: str, seed: int = 0, **settings) -> Path:
    """A checkpoint folder with model and tokenizer, written on first use."""
    path = folder / f"{name}-{head}-{seed}-{abs(hash(str(settings))) % 10**6}"
    if not path.exists():
        model(name, head, seed, **settings).save_pretrained(path)
        tokenizer(ARCHITECTURES[name][2]).save_pretrained(path)
    return path
