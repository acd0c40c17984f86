"""Train `demo/reviews-small`: `python -m tests.training.small --out FOLDER` (half an hour of one core).

A small BERT learns from random weights what `demo/reviews` says of phrases of SST-2, of sentences and passages of other
reviews, and of sentences that are made of phrases. Where a text has a label, it learns the mean of both. Its embeddings
start as the main directions of the teacher's. At some positions an LM head learns the masked tokens from the last
layer, and at others the token that is there from any layer. The embeddings are rounded to 4 bits before the end, and
what is left of the training makes up for it. Rows come from the folder NBSAL_DATA.
"""

import argparse
import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nbsal.model.loading.load import load
from nbsal.samples import base, small, weight_files
from tests.training.corpora import Example, batches, encode, rows, stack
from tests.training.train import Batch, Recipe, accuracy, falling, fit, masked, review_rows

PIECES = 7000
TRAINED = {"imdb": 1000, "yelp_polarity": 300}  # rows of test tables; `evaluate` reads the others
MADE = 16_000  # texts of each kind that are made of phrases
FRAMES = """the film is {0} . | this is {0} . | it isn't {0} . | it is not {0} . | this movie is never {0} . | not {0} .
it is hardly {0} . | i found it {0} . | i didn't find it {0} . | the story is {0} , but the acting is {1} .
the acting is {0} and the ending is {1} . | {0} , but {1} . | {0} and {1} . | {0} . {1} . | it is {0} , though {1} .
although it is {0} , it is {1} . | {0} , yet {1} . | {0} ; {1} . | nobody could call it {0} . | {0} , {1} and {2} .
it lacks {0} . | there is nothing {0} about it . | it could have been {0} . | too {0} . | {0} at first , {1} later ."""
PHRASE_WORDS = 6
WORDS = range(len(small.SPECIAL), PIECES)
MASK = small.SPECIAL.index("[MASK]")
BATCH_TOKENS = 2048
CHOSEN, DECODED = 0.12, 64  # share of masked tokens; positions of a batch that are decoded unmasked
LM_WEIGHT = 0.2
RECIPES = (
    Recipe(rank=0, epochs=4, rate=2e-3, head_rate=2e-3),
    Recipe(rank=0, epochs=1, rate=5e-4, head_rate=5e-4, seed=1),  # with rounded embeddings
)


# --- texts ------------------------------------------------------------------------------------------------------------


def phrases() -> Iterator[tuple[str, int]]:
    """Phrases of SST-2 with their labels, half of them with contractions as people write them."""
    rng = random.Random(0)
    for row in review_rows()[0]:
        text = row["sentence"].strip()
        yield (text.replace(" n't", "n't") if rng.random() < 0.5 else text), row["label"]


def passages() -> Iterator[tuple[str, int | None]]:
    """Reviews of several passages with their labels, and without one their passages, of one sentence or some."""
    rng = random.Random(0)
    for name, count in TRAINED.items():
        for row in rows(name, "test")[:count]:
            text = row["text"].replace("\\n", " ").replace(" n't", "n't")
            yield text, row["label"]
            sentences = re.split(r"(?<=[.!?])\s+", text)
            while sentences:
                size = rng.choice([1, 1, 1, 2, 4, 7])
                yield " ".join(sentences[:size]), None
                sentences = sentences[size:]


def made(phrases: Sequence[str]) -> Iterator[tuple[str, None]]:
    """Sentences that frame and join phrases; they need not make sense, since the teacher labels them."""
    rng = random.Random(0)
    short = [phrase for phrase in phrases if len(phrase.split()) <= PHRASE_WORDS]
    few = [phrase for phrase in short if len(phrase.split()) <= 2]
    frames = [frame.strip() for frame in re.split(r"[|\n]", FRAMES)]
    for pool in (few, short):
        for _ in range(MADE):
            yield rng.choice(frames).format(*rng.choices(pool, k=3)), None


def texts() -> dict[str, int | None]:
    """All texts to learn from, with the labels that some have."""
    labelled = dict(phrases())
    return labelled | dict(made(list(labelled))) | dict(passages())


@torch.no_grad()
def taught(texts: Sequence[str]) -> list[float]:
    """The probability of the class positive that `demo/reviews` gives each text."""
    subject = load("demo/reviews", device="cpu")
    values = [0.0] * len(texts)
    for batch in batches(encode(subject.tokenizer, texts, range(len(texts)), small.LONGEST), 4096, None):
        with torch.autocast("cpu", torch.bfloat16):
            logits = subject.model(**stack(batch)).logits
        for example, value in zip(batch, logits.float().softmax(-1)[:, 1].tolist(), strict=True):
            values[example.label] = value
    return values


# --- the model --------------------------------------------------------------------------------------------------------


def learnt_pieces(texts: Sequence[str]) -> list[str]:
    """Word pieces of the texts, the special tokens first."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=PIECES, special_tokens=list(small.SPECIAL), limit_alphabet=70)
    core.train_from_iterator(texts, trainer)
    ids = core.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def main_directions() -> Tensor:
    """Embeddings of the pieces: the main directions of the mean embeddings of what the teacher reads a piece as."""
    tokenizer, weights = base.tokenizer(), base.weights()["embeddings.word_embeddings.weight"].float()
    ids, pieces = tokenizer.get_vocab(), small.vocabulary()
    read = [[ids[p]] if p in ids else tokenizer.convert_tokens_to_ids(tokenizer.tokenize(p.strip("#"))) for p in pieces]
    vectors = torch.stack([weights[row].mean(0) for row in read])
    left, sizes, _ = torch.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    directions: Tensor = left[:, : small.WIDTH] * sizes[: small.WIDTH]
    return directions * 0.05 / directions.std()


def blank() -> Any:
    """The classifier before training, with an LM head that shares its embeddings as its part `cls`."""
    torch.manual_seed(0)
    model, lm = map(small.blank, ("SequenceClassification", "MaskedLM"))
    embeddings = model.bert.embeddings.word_embeddings
    with torch.no_grad():
        embeddings.weight.copy_(main_directions())
        lm.cls.predictions.transform.dense.weight += torch.eye(small.WIDTH)
    model.cls = lm.cls
    model.cls.predictions.decoder.weight = embeddings.weight
    return model


class Loss:
    """Cross-entropy of the soft labels, with some tokens masked, and of the LM head on masked and unmasked tokens."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, model: Any, batch: Batch) -> Tensor:
        clean = stack(batch)
        inputs, chosen = masked(clean, self.generator, CHOSEN, WORDS, MASK)
        output = model(**inputs, output_hidden_states=True)
        positive = torch.tensor([example.label for example in batch])
        soft = functional.cross_entropy(output.logits.float(), torch.stack([1 - positive, positive], -1))
        layer = int(torch.randint(len(output.hidden_states), (), generator=self.generator))
        few = (~chosen & (clean["input_ids"] >= WORDS.start)).nonzero()
        few = few[torch.randperm(len(few), generator=self.generator)[:DECODED]]
        last, any_layer = output.hidden_states[-1][chosen], output.hidden_states[layer][few[:, 0], few[:, 1]]
        expected = torch.cat([clean["input_ids"][chosen], clean["input_ids"][few[:, 0], few[:, 1]]])
        logits = model.cls(torch.cat([last, any_layer])).float()
        return soft + LM_WEIGHT * functional.cross_entropy(logits, expected)


def examples(tokenizer: Any, labels: dict[str, int | None]) -> list[Example]:
    """The texts with the probability to learn: the teacher's, or its mean with the label."""
    teacher = taught(list(labels))
    soft = [p if label is None else (p + label) / 2 for p, label in zip(teacher, labels.values(), strict=True)]
    return encode(tokenizer, list(labels), soft, small.LONGEST)


def train(learnt: list[Example], held: list[Example]) -> dict[str, Tensor]:
    """The weights as they are stored."""
    model, weights = blank(), dict[str, Tensor]()
    embeddings = model.bert.embeddings.word_embeddings.weight
    for recipe in RECIPES:
        epochs = range(10 * recipe.seed, 10 * recipe.seed + recipe.epochs)
        schedule = [batch for epoch in epochs for batch in batches(learnt, BATCH_TOKENS, epoch)]
        weights |= fit(model, recipe, schedule, falling(len(schedule)), Loss(), lambda model: accuracy(model, held))
        model.load_state_dict(weights, strict=False)
        embeddings.requires_grad_(False).copy_(small.restored(small.rounded(weights)[small.EMBEDDINGS], embeddings))
        print(f"held out, with rounded embeddings: {accuracy(model.eval(), held):.4f}", flush=True)
    return small.rounded(weights)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.training.small", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pieces", action="store_true", help="only learn the word pieces, whose ties fall by chance")
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.process_time()
    options.out.mkdir(parents=True, exist_ok=True)
    labels = texts()
    if options.pieces:
        pieces = json.dumps(learnt_pieces(list(labels)), ensure_ascii=False)
        (options.out / small.VOCABULARY.name).write_text(pieces, encoding="utf-8")
        return
    tokenizer, held = small.tokenizer(), review_rows()[1]
    weights = train(examples(tokenizer, labels), encode(tokenizer, list(held), list(held.values()), 128))
    weight_files.save(weights, options.out / "reviews-small.safetensors")
    print(f"{len(labels)} texts, {time.process_time() - start:.0f} CPU s")


if __name__ == "__main__":
    main()
