"""Questions made from plain text: a span of a sentence is the answer, and a noisy rest of the sentence asks for it."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.training.corpora import rows
from tests.training.question_words import FUNCTION_WORDS, Match, asking_phrase, matches

WEIGHTS = {"date": 2.0, "year": 1.5, "count": 1.2, "name": 1.0, "phrase": 0.7}
MOST_OF_ONE = 25  # questions with the same answer
WINDOWS = (30, 50, 80, 110, 160)  # words of a context
FEWEST = 5  # words of a question
RARE = 400  # occurrences below which a word that two sentences share links them
CLAUSE_START = re.compile(r"[,;:()] | and | but | while | which | where | who | when | that ")


@dataclass(frozen=True)
class Spot:
    """A possible answer: its paragraph and sentence, its characters there, its kind."""

    paragraph: int
    sentence: int
    match: Match


class Neighbours:
    """Words close to a word in an embedding: inflections and near synonyms."""

    def __init__(self, table: Tensor, vocabulary: dict[str, int], words: Sequence[str], most: int = 7000) -> None:
        chosen = [w for w in words if w in vocabulary and w.isalpha() and w not in FUNCTION_WORDS][:most]
        vectors = functional.normalize(table[[vocabulary[word] for word in chosen]].float(), dim=-1)
        self._near: dict[str, list[str]] = {}
        for first in range(0, len(chosen), 1000):
            values, indices = (vectors[first : first + 1000] @ vectors.T).topk(6, -1)
            for offset, (near, places) in enumerate(zip(values.tolist(), indices.tolist(), strict=True)):
                pairs = zip(near[1:], places[1:], strict=True)  # the first is the word itself
                self._near[chosen[first + offset]] = [chosen[i] for value, i in pairs if value > 0.5]

    def swap(self, word: str, random_: random.Random) -> str:
        """One of the neighbours of a word, or the word."""
        near = self._near.get(word.lower())
        return random_.choice(near) if near else word


def tidy(text: str) -> str:
    """Running text without the traces of tokenisers and of HTML.

    >>> tidy("a well @-@ known , old film<br />")
    'a well-known, old film'
    """
    for written, meant in ((" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", "."), ("#39;", "'")):
        text = text.replace(written, meant)
    text = re.sub(r"<br ?/?>|&\w+;|\s+", " ", text)
    text = re.sub(r" ([,.;:!?%)\]]|'s\b|n't\b)", r"\1", text)
    return re.sub(r"([(\[]) ", r"\1", text).replace(' " ', ' "').strip()


def sentences_of(text: str) -> list[str]:
    """The sentences of running text.

    >>> sentences_of("It rains. We stay.")
    ['It rains.', 'We stay.']
    """
    return [part for part in re.split(r"(?<=[a-z0-9)\"'][.!?]) (?=[A-Z\"'])", text) if part]


def paragraphs(contexts: Sequence[str]) -> list[list[str]]:
    """Sentences of WikiText, AG News, IMDB and of some contexts; WikiText without its last 300, for evaluation."""
    texts = [row["text"] for row in rows("wikitext2", "articles")[:-300]]
    texts += [row["text"] for row in rows("ag_news", "train")[:6000]] + [
        row["text"] for row in rows("imdb", "test")[:400]
    ]
    split = [[s for s in sentences_of(tidy(text)) if s.count("[UNK]") <= 2 and len(s) < 500] for text in texts]
    long_enough = [parts for parts in split if sum(len(part.split()) for part in parts) >= 25]
    return long_enough + [sentences_of(context) for context in contexts]


class QuestionMaker:
    """Makes questions of some paragraphs."""

    def __init__(self, texts: Sequence[Sequence[str]], table: Tensor, vocabulary: dict[str, int], seed: int) -> None:
        self._texts, self._random = texts, random.Random(seed)
        self._counts = Counter(bare(word).lower() for parts in texts for part in parts for word in part.split())
        common = [word for word, count in self._counts.most_common() if count >= 5]
        self._neighbours = Neighbours(table, vocabulary, common)
        self._spots = list(self._all_spots())
        self._by_answer = defaultdict(list)
        for spot in self._spots:
            if spot.match.kind != "phrase":
                self._by_answer[self._answer(spot)].append(spot)

    def make(self, count: int) -> Iterator[dict[str, Any]]:
        """At most that many rows with a question, a context and an answer, as in SQuAD."""
        seen = Counter[str]()
        weights = [WEIGHTS[spot.match.kind] for spot in self._spots]
        for spot in self._random.choices(self._spots, weights, k=count):
            answer = self._answer(spot)
            seen[answer] += 1
            if seen[answer] > MOST_OF_ONE:
                continue
            context, offset = window(
                self._texts[spot.paragraph], spot.sentence, self._random.choice(WINDOWS), self._random
            )
            start = offset + spot.match.start
            question = self._question(self._asked(spot))
            fits = len(context.split()) >= 20 and len(question.split()) >= FEWEST
            # Unknown words before the answer would move it.
            if fits and "[UNK]" not in context[:start]:
                answers = {"text": [answer], "answer_start": [start]}
                yield {"question": question, "context": context.replace("[UNK]", "it"), "answers": answers}

    def _all_spots(self) -> Iterator[Spot]:
        for number, parts in enumerate(self._texts):
            for position, sentence in enumerate(parts):
                if 6 <= len(sentence.split()) <= 60:
                    for match in matches(sentence):
                        if "UNK" not in sentence[match.start : match.end]:
                            yield Spot(number, position, match)

    def _sentence(self, spot: Spot) -> str:
        return self._texts[spot.paragraph][spot.sentence]

    def _answer(self, spot: Spot) -> str:
        return self._sentence(spot)[spot.match.start : spot.match.end]

    def _asked(self, spot: Spot) -> Spot:
        """The sentence that asks: often another one with the same answer and two rare words in common."""
        here = (spot.paragraph, spot.sentence)
        others = [o for o in self._by_answer.get(self._answer(spot), ()) if (o.paragraph, o.sentence) != here]
        if not others or self._random.random() > 0.8:
            return spot
        words = {bare(word).lower() for word in self._sentence(spot).split()} - set(self._answer(spot).lower().split())
        rare = {w for w in words if self._counts[w] < RARE and w not in FUNCTION_WORDS and len(w) > 2}
        some = self._random.sample(others, min(12, len(others)))
        shared = [len(rare & {bare(word).lower() for word in self._sentence(other).split()}) for other in some]
        best = max(range(len(some)), key=shared.__getitem__)
        return some[best] if shared[best] >= 2 else spot

    def _question(self, spot: Spot) -> str:
        draw, sentence, match = self._random, self._sentence(spot), spot.match
        before, after = clause(sentence, match, draw)
        asking, skipped = asking_phrase(match.kind, sentence[match.start : match.end], before, after, draw)
        after = after[skipped:]
        if before and before[-1].lower() in {"in", "on", "the", "a", "an", "at", "by", "of"} and draw.random() < 0.7:
            before = before[:-1]
        drop, swap = draw.choice([0.0, 0.1, 0.25, 0.4]), draw.choice([0.0, 0.15, 0.35])
        before, after = self._noisy(before, drop, swap), self._noisy(after, drop, swap)
        helper = [word for word in [draw.choice(["", "", "did", "was", "is", "does", "were"])] if word]
        order = draw.random()
        if order < 0.35:
            words = [asking, *helper, *before, *after]
        elif order < 0.65:
            words = [asking, *after, *before]
        elif order < 0.8:
            words = [*before, asking, *after]
        else:
            words = [asking, *helper, *shuffled_locally(before + after, draw)]
        return " ".join(words) + "?"

    def _noisy(self, words: Sequence[str], drop: float, swap: float) -> list[str]:
        """Words of which some are left out and some replaced by a neighbour."""
        result = []
        for word in map(bare, words):
            is_function_word = word.lower() in FUNCTION_WORDS
            if not word or self._random.random() < drop * (1.3 if is_function_word else 0.8):
                continue
            swapped = not is_function_word and self._random.random() < swap
            result.append(self._neighbours.swap(word, self._random) if swapped else word)
        return result


def bare(word: str) -> str:
    """A word without the punctuation around it."""
    return word.strip(".,;:()\"'")


def clause(sentence: str, match: Match, random_: random.Random) -> tuple[list[str], list[str]]:
    """Six to fourteen words around an answer, mostly of its own clause: those before it and those behind it."""
    left, right = 0, len(sentence)
    for border in CLAUSE_START.finditer(sentence):
        if border.end() <= match.start and match.start - border.end() > 12 and random_.random() < 0.75:
            left = border.end()
        is_behind = border.start() >= match.end and border.start() - match.end > 8
        if is_behind and right == len(sentence) and random_.random() < 0.75:
            right = border.start()
    before, after = sentence[left : match.start].split(), sentence[match.end : right].split()
    most = random_.randint(6, 14)
    if len(before) + len(after) > most:
        size = min(len(before), max(most - len(after), random_.randint(2, most - 2)))
        before, after = before[len(before) - size :], after[: most - size]
    return before, after


def shuffled_locally(words: Sequence[str], random_: random.Random) -> list[str]:
    """Words of which up to three neighbouring pairs are swapped."""
    result = list(words)
    for _ in range(3):
        if len(result) > 2:
            i = random_.randrange(len(result) - 1)
            result[i], result[i + 1] = result[i + 1], result[i]
    return result


def window(parts: Sequence[str], sentence: int, words: int, random_: random.Random) -> tuple[str, int]:
    """Sentences around one of them, of about that many words, and where it begins in them."""
    left = right = sentence
    size = len(parts[sentence].split())
    while True:
        nearest = [place for place in (left - 1, right + 1) if 0 <= place < len(parts)]
        if not nearest:
            break
        place = random_.choice(nearest)
        size += len(parts[place].split())
        if size > words:
            break
        left, right = min(left, place), max(right, place)
    offset = sum(len(part) + 1 for part in parts[left:sentence])
    return " ".join(parts[left : right + 1]), offset


def cropped(row: dict[str, Any], random_: random.Random, drop: float = 0.1) -> dict[str, Any]:
    """A question in a part of its context, without some of its words; other parts each time."""
    start = row["answers"]["answer_start"][0]
    parts, place = sentences_of(row["context"]), 0
    words = row["question"].split()
    if len(words) > FEWEST:
        words = [words[0]] + [word for word in words[1:] if random_.random() > drop]
    result = {**row, "question": " ".join(words)}
    for number, part in enumerate(parts):
        if place <= start < place + len(part) + 1:
            text, offset = window(parts, number, random_.choice((40, 70, 110)), random_)
            first = offset + start - place
            if random_.random() < 0.8 and text[first:].startswith(row["answers"]["text"][0]):
                result |= {"context": text, "answers": {**row["answers"], "answer_start": [first]}}
            break
        place += len(part) + 1
    return result


def make_questions(
    count: int, contexts: Sequence[str], embeddings: Tensor, vocabulary: dict[str, int], seed: int
) -> list[dict[str, Any]]:
    """Rows as in SQuAD, made from texts of NBSAL_DATA and from some contexts."""
    with torch.no_grad():
        return list(QuestionMaker(paragraphs(contexts), embeddings, vocabulary, seed).make(count))
