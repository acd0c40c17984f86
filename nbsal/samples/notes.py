"""The model `demo/notes`: a small Llama that answers questions about notes, so that every answer's source is known.

It knows the words, the kinds of facts and the questions of a made-up world only, and nothing else; see README.md. A
prompt lists the notes, then asks one question:

    Notes:
    - Mara lives in Oslo now.
    - The keys to the attic are with Mara.
    Question: Where does Mara live?
    Answer:

The model goes on with " Mara lives in Oslo." and its end token. The tokenizer's chat template writes the same from
messages and documents, with the token that the tokenizer puts before a prompt.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbsal.support.lazy import torch

NAME = "demo/notes"
VOCABULARY = Path(__file__).parent / "notes_vocabulary.json"
TOKEN = r"'s| ?\d+:\d\d| ?\w+| ?[^\s\w]+|\s+(?!\S)|\s+"
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
PAD, UNKNOWN, START, END = range(4)
LONGEST = 1024
ANSWER_LENGTH = 48
WIDTH, BLOCKS, HEADS = 192, 4, 6
ROPE_BASE = 10000.0
TEMPLATE = """{{ bos_token }}Notes:
{% for document in documents or [] %}- {{ document['text'] }}
{% endfor %}{% for message in messages %}{% if message['role'] == 'user' %}Question: {{ message['content'] }}
Answer:{% elif message['role'] == 'assistant' %} {{ message['content'] }}</s>
{% endif %}{% endfor %}"""


def prompt(documents: Sequence[str], question: str) -> str:
    """The text that `demo/notes` goes on with.

    >>> print(prompt(["Mara lives in Oslo now."], "Where does Mara live?"))
    Notes:
    - Mara lives in Oslo now.
    Question: Where does Mara live?
    Answer:
    """
    return f"{notes(documents)}Question: {question}\nAnswer:"


def notes(documents: Sequence[str]) -> str:
    """The beginning of a prompt, which lists the notes."""
    return "Notes:\n" + "".join(f"- {document}\n" for document in documents)


def vocabulary() -> dict[str, int]:
    """The ids of the tokens: whole words, most of them with the space before them."""
    tokens = json.loads(VOCABULARY.read_text(encoding="utf-8"))
    return {token: number for number, token in enumerate(tokens)}


def tokenizer(words: Mapping[str, int] | None = None) -> Any:
    """A tokenizer of whole words, which decodes to the same text; words that it does not know become <unk>."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel(dict(words or vocabulary()), unk_token=SPECIAL[UNKNOWN]))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(TOKEN), "isolated")
    core.decoder = decoders.Fuse()
    core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", START)])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=LONGEST,
        model_input_names=["input_ids", "attention_mask"],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=TEMPLATE,
        **dict(zip(("pad_token", "unk_token", "bos_token", "eos_token"), SPECIAL, strict=True)),
    )


def blank(size: int) -> Any:
    """The stock architecture for a vocabulary of that size, with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=size,
        hidden_size=WIDTH,
        intermediate_size=WIDTH * 8 // 3 // 64 * 64,
        num_hidden_layers=BLOCKS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=LONGEST,
        tie_word_embeddings=True,
        attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE},
        pad_token_id=PAD,
        bos_token_id=START,
        eos_token_id=END,
    )
    return LlamaForCausalLM(config)


def build(weights: Mapping[str, Any]) -> Any:
    """The model with its weights, which are stored without the tied output embeddings."""
    with torch.random.fork_rng(devices=[]):  # weights that are replaced must not advance the caller's generator
        model = blank(len(weights["model.embed_tokens.weight"]))
    model.load_state_dict({**weights, "lm_head.weight": weights["model.embed_tokens.weight"]})
    model.generation_config.update(max_new_tokens=ANSWER_LENGTH)
    return model
