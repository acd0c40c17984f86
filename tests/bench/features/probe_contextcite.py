"""What context-cite can do."""

import copy

from context_cite import ContextCiter
from context_cite.context_partitioner import BaseContextPartitioner

from tests.bench.features import models
from tests.bench.features.registry import partly

PARTS = ("a warm film", "the dull jokes", "nobody laughs")


class _Parts(BaseContextPartitioner):
    num_sources = len(PARTS)

    def split_context(self):
        pass

    def get_source(self, index):
        return PARTS[index]

    def get_context(self, mask=None):
        return " . ".join(text for i, text in enumerate(PARTS) if mask is None or mask[i])


def _citer():
    model, tokenizer = copy.deepcopy(models.writer())
    tokenizer.chat_template = "{{ messages[0].content }}"
    context = _Parts("").get_context()
    settings = {"num_ablations": 8, "generate_kwargs": {"max_new_tokens": 6, "do_sample": False}}
    return ContextCiter(model, tokenizer, context, "of this", partitioner=_Parts(context), **settings)


def methods(folder):
    assert len(_citer().get_attributions(verbose=False)) == len(PARTS)
    return "1: a lasso over ablations"


def reply(folder):
    citer = _citer()
    assert len(citer.get_attributions(0, len(citer.response), verbose=False)) == len(PARTS)
    return partly("a span of the reply a call, from the same ablations; scores of sources, not of tokens")


def documents(folder):
    assert len(_citer().get_attributions(verbose=False)) == len(PARTS)
    return "documents by a partitioner that the caller writes; sentences or words by data that nltk downloads"
