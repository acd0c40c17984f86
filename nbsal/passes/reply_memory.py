"""What explaining a reply needs before anything is run: bytes beyond the model, and forward passes.

The numbers of bytes are fitted to peaks, which `python -m tests.bench memory` prints beside these estimates: most are
right within a factor of 1.5. Those of forward passes are rough; `python -m tests.bench answers` prints some.
"""

from dataclasses import dataclass, replace
from typing import Protocol

from nbsal.model import encoder_decoder
from nbsal.model.running import attention_maps, double, memory
from nbsal.model.running.layers import reads_attention
from nbsal.model.subject import Subject
from nbsal.passes import plan, reply_stream, reply_trace, stream

ROW = 1.3  # forward passes for the row of a token
SENTENCE = 1.7  # for a sentence that is hidden
FEW_SENTENCES = 20  # which are as quickly hidden as a reply of 26 tokens is followed back
OWN, INNER = 9, 3  # states of a block's graph, as wide as the model and as its feed-forward layer
RUNNING = 3  # states of the feed-forward layer in a forward pass that records nothing
MASKS = 3  # of all queries and keys, while it is tested whether one is causal
ALL_LOGITS = 3  # of those of all positions
LOGITS = 4  # copies of the logits that are read
POINTS = 4  # states of each prediction that methods with forward passes of their own hold
RELEVANCE = 8  # maps of all heads that a graph of relevance holds of each block
INNER_NAMES = ("intermediate_size", "n_inner", "ffn_dim", "encoder_ffn_dim", "d_ff")


class SizedMethod(Protocol):
    """What memory depends on in a method."""

    @property
    def needs(self) -> frozenset[str]: ...
    @property
    def shares(self) -> str: ...
    @property
    def by_block(self) -> bool: ...
    @property
    def hides(self) -> bool: ...


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model.

    >>> Sizes(blocks=32, width=4096, inner=11_008, heads=32, vocabulary=32_000, itemsize=2).states(1000) // 2**20
    133
    """

    blocks: int
    width: int
    inner: int  # of the feed-forward layers
    heads: int
    vocabulary: int
    itemsize: int  # bytes of a number
    fused: bool = True  # whether attention shows no maps
    stacks: int = 1  # 2: an encoder and a decoder
    converted: int = 0  # bytes of a block's weights, if they are converted while it runs

    def states(self, tokens: int) -> int:
        """The bytes of the graph of one block, without attention maps."""
        return tokens * (OWN * self.width + INNER * self.inner) * self.itemsize

    def computing(self, itemsize: int, weights: int) -> "Sizes":
        """The same in another precision, converted block by block; `weights` are the numbers of a block."""
        return self if itemsize == self.itemsize else replace(self, itemsize=itemsize, converted=itemsize * weights)

    def running(self, tokens: int) -> int:
        """The bytes of a forward pass that records nothing."""
        maps = 0 if self.fused else memory.FORWARD_MAPS * self.heads * tokens**2
        states = max(memory.FORWARD_STATES * self.width, OWN * self.width + RUNNING * self.inner)
        return (tokens * states + maps) * self.itemsize


def sizes_of(subject: Subject) -> Sizes:
    """The sizes of a subject, of which a copy may compute in another precision than its weights have."""
    config = subject.model.config
    width = int(config.hidden_size)
    inner = next((int(value) for name in INNER_NAMES if (value := getattr(config, name, None))), 4 * width)
    reads_weights = subject.gradients is not None and subject.gradients.reads_weights
    own = Sizes(
        blocks=subject.depth,
        width=width,
        inner=inner,
        heads=subject.heads,
        vocabulary=int(config.vocab_size),
        itemsize=subject.model.dtype.itemsize,
        fused=attention_maps.is_fused(subject.model) and not reads_weights,
        stacks=2 if subject.task == encoder_decoder.REPLY else 1,
    )
    weights = sum(weight.numel() for weight in subject.blocks[0].parameters())
    return own.computing(subject.dtype.itemsize, weights)


def needed(method: SizedMethod, sizes: Sizes, tokens: int, reply: int) -> int:
    """The bytes beyond the model that the scores of a reply's tokens take; `tokens` are those of prompt and reply."""
    logits, running = LOGITS * reply * sizes.vocabulary * max(4, sizes.itemsize), sizes.running(tokens)
    read = logits + running
    if method.hides:
        return read
    gradients = any(need.endswith("_grad") for need in method.needs) or "forward" in method.needs
    if method.shares == "pass" and not _reads_whole_maps(method, sizes):
        points = POINTS * min(reply * tokens * sizes.width, reply_trace.FEATURES) * ("forward" in method.needs)
        maps = ("attention_grad" in method.needs) * (1 if sizes.fused else sizes.heads)
        held = points * sizes.itemsize + _by_block(sizes, tokens, reply, gradients, maps)
        return logits + max(running, held)  # what a forward pass holds is free before the first block runs again
    pairs = sizes.heads * tokens**2 * sizes.itemsize
    read += ALL_LOGITS * tokens * sizes.vocabulary * sizes.itemsize
    graphs = sizes.stacks * sizes.blocks * sizes.states(tokens)
    if method.shares == "graph":
        return read + graphs + ("relevance" in method.needs) * sizes.stacks * sizes.blocks * RELEVANCE * pairs
    if method.by_block and plan.MAPS * sizes.blocks * pairs > plan.LIMIT:  # each token has a text of its own
        states = memory.STREAMED_STATES * sizes.blocks * tokens * sizes.width * sizes.itemsize
        return read + states + memory.STREAMED_MAPS * pairs
    maps = RELEVANCE if "relevance" in method.needs else memory.WHOLE_MAPS * reads_attention(method.needs)
    return read + gradients * graphs + sizes.stacks * sizes.blocks * maps * pairs


def _reads_whole_maps(method: SizedMethod, sizes: Sizes) -> bool:
    return sizes.stacks > 1 or (reads_attention(method.needs) and not method.by_block)


def _by_block(sizes: Sizes, tokens: int, reply: int, gradients: bool, maps: int) -> int:
    """Of a stream (see `nbsal.passes.reply_stream`), of whose blocks each prediction has gradients of some maps."""
    of_blocks = sizes.blocks * tokens * sizes.width * sizes.itemsize
    pairs = tokens**2 * sizes.itemsize * (MASKS if sizes.fused else memory.STREAMED_MAPS * sizes.heads)
    if not gradients:
        return 3 * of_blocks + pairs  # their inputs, queries and keys
    each = tokens * (reply_trace.STATES * sizes.width + 2 * maps * tokens) * sizes.itemsize
    if sizes.fused and memory.STATES * of_blocks <= stream.GRAPHS:
        together = max(1, min(reply_stream.MOST, reply_stream.ROWS // tokens, reply))
        return sizes.blocks * sizes.states(tokens) + together * each + pairs
    chunk = min(reply * each, max(each, reply_trace.PROPAGATED * sizes.itemsize))
    converted = min(double.LIMIT, sizes.blocks * sizes.converted) + 2 * sizes.converted
    return of_blocks + (1 + sizes.fused) * sizes.states(tokens) + chunk + pairs + converted


def passes(reply: int) -> float:
    """The forward passes that the rows of a reply's tokens cost."""
    return ROW * reply


def passes_of_hiding(sentences: int) -> float:
    """The forward passes that it costs to hide sentences, one after the other; of few, the time does not matter."""
    return SENTENCE * max(sentences, FEW_SENTENCES)
