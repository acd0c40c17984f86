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
# # Generated answers
#
# A model reads some notes and a question, and writes an answer. Which note is the answer from? Would the model answer
# differently without that note? And which methods find the right note?
#
# **You will be able to** read which sources a reply depends on, ask why it has one word rather than another, test an
# explanation by hiding sources, compare methods where the source is known, and explain a model behind a server. Twenty
# minutes; you should know what a language model is.
#
# The model is `demo/notes`, an embedded Llama of four blocks. It was trained on a made-up world of a few hundred names
# and things, and has never seen these notes: only a note can tell it the answer. So **the source of every answer is
# known**, and methods can be tested.

# %%
# %matplotlib inline
import os

import pandas

import nbsal

SIZE = int(os.environ.get("NBSAL_SIZE", 40)) or None  # questions on which methods are compared
pandas.set_option("display.float_format", "{:z.2f}".format)
model = nbsal.load("demo/notes")
samples = nbsal.samples.texts("notes")
row = next(row for row in samples if len(row["source"]) == 1 and len(row["documents"]) >= 4)
documents, question = row["documents"], [{"role": "user", "content": row["question"]}]
answer = nbsal.answer(model, question, documents=documents, progress=False)
answer

# %% [markdown]
# The first sentence is measured: the model scored the same reply again without each note. Without document 1, *armoury*
# becomes all but impossible. The notes are the units here, because `nbsal.answer` hides whole documents where there are
# any (the method `occlusion`). So each note has one colour, and the bars beside the notes are their shares of the score
# of *armoury*. The table at the end has one row for each phrase of the reply.
#
# In a running notebook, `nbsal.widgets.Answers(answer)` shows the same as a view: select words of the reply to see
# which notes they depend on, take a note out, or let the model write again without it.
#
# ## Which source each word depends on
#
# By how much the log-probability of each word drops without each source, in nats. Sources that change no word by 0.1 or
# more are left out:

# %%
drops = answer.matrix(rows="word", columns="document").T
drops[drops.abs().max(axis=1) >= 0.1]

# %% [markdown]
# *helmet* needs the question (13.65) and document 1 (11.21). *armoury* needs document 1 alone (10.36). *in* needs the
# question (5.58). All other words follow from the reply so far, whatever is hidden.
#
# ## Why this word and not another
#
# `answer.tokens()` has the probability of each token, and the most probable other tokens in its place, its *rivals*.
# `answer.rather` explains why the reply has its token and not a rival. Here the token that the model was least sure of:

# %%
tokens = answer.tokens()
token = tokens["probability"].idxmin()
rival, chance = tokens["rivals"][token][0]
print(f"“{tokens['token'][token].strip()}” {tokens['probability'][token]:.1%}, “{rival.strip()}” {chance:.1%}")
answer.rather(rival, at=token)

# %% [markdown]
# Where the model wrote *helmet*, it might have written *notes*, as in "The notes do not say." The question and document
# 1 support *helmet*. Document 8, which is about a fridge, supports *notes* a little.
#
# ## Test the explanation
#
# An explanation is a claim: without these sources, the reply would be less probable. `judge` tests it. It hides the
# source with the largest score, then the next one as well, and so on, and compares the drops with those of 20 random
# orders.

# %%
judgement = answer.judge(progress=False)
judgement.plot()
judgement.frame()

# %% [markdown]
# From the first step on, the curve is near the lower edge of the grey band, which has 95 % of the random orders. The
# log-probability of the reply falls by 21.57 nats without the first source, document 1. The mean drop over all
# steps is 27.15, above the interval of the random orders (5.66 to 26.82): the explanation is better than chance. The
# last row is another test: 48 random sets of sources were hidden. The sums of the scores that were left and the
# measured log-probabilities have a rank correlation of 0.71.
#
# What does the model write without document 1?

# %%
print("with document 1:   ", answer.text)
print("without document 1:", nbsal.answer(model, question, documents=documents[1:], progress=False).text)

# %% [markdown]
# ## Which methods find the source
#
# One reply proves nothing. `nbsal.evaluation.arena` asks questions whose answer is known. It explains the last word of
# each right reply by the *words* of the notes, and counts how often the right one has the highest score: *armoury* of
# document 1, say. `gae` is attention times its gradient through all blocks, `attn-lrp` relevance propagation
# (`04_relevance_propagation`), `gradxact` gradient times input, `raw-attention` the attention of the last block.

# %%
methods = ["attn-lrp", "gae", "gradxact", "occlusion", "raw-attention", "random"]
results = nbsal.evaluation.arena(methods, "notes", size=SIZE or 100, progress=False)
results.ranks("notes").reset_index()

# %% [markdown]
# `mean` is the share of right words, with its 95 % interval. The rank is 1 plus the number of methods that are
# significantly better (paired tests, adjusted for all pairs). Three methods tie at the top, and are better than hiding
# single words (`occlusion`, 0.75). Attention in the last block is no better than a random order.
#
# ## Answers that take two notes
#
# These questions are harder. The model first writes a name from one note. Then it looks up the value for that name in
# another note:

# %%
pairs = [row for row in samples if len(row["source"]) == 2 and "not in the notes" not in row["answer"]]
first = pairs[0]
print(*first["documents"], "", first["question"], first["answer"], "", sep="\n")
chat = [{"role": "user", "content": first["question"]}]
chain = nbsal.answer(model, chat, documents=first["documents"], method="ifr", hops="all", progress=False)
print(chain.statement().text())

# %% [markdown]
# The scores of *221* lie on document 2 and on the reply so far, above all on *Gerda*. With `hops=1`, the score that
# *221* gives to *Gerda* is divided among the sources of *Gerda*, in proportion to their scores; `hops="all"` repeats
# that until almost no score is left on words of the reply. This needs a method that scores the words of the reply, such
# as `ifr` (information flow routes); methods that hide sources do not.
#
# Does it find both notes? The table counts how often the two notes with the highest scores are the right ones: in the
# scores of the value itself (`direct`), in those followed through the reply (`all hops`), and in the sum of the scores
# of all words of the reply (`all words`). `gim` is gradient times input with another gradient for attention.


# %%
def both_notes(rows, methods=("ifr", "gae", "attn-lrp", "gim", "random")):
    """By method, the share of replies in which the two notes with the highest scores are the right ones."""
    hits = []
    for row in rows:
        chat, given = [{"role": "user", "content": row["question"]}], row.get("reply")
        settings = {"documents": row["documents"], "check": False, "progress": False}
        answers = nbsal.answer(model, chat, given and f" {given}", method=list(methods), **settings)
        for name, each in answers.items():
            tokens = each.tokens()
            value = tokens.index[~tokens["special"]][-2]  # the last token before the full stop
            if tokens["rank"][value] > 1 if given else each.text.strip() != row["answer"]:
                continue  # the model would write something else
            by_note = {
                "direct": each.matrix("token", "document").iloc[value],
                "all hops": each.matrix("token", "document", hops="all").iloc[value],
                "all words": each.matrix("reply", "document").iloc[0],
            }
            right = {f"document {number + 1}" for number in row["source"]}
            best = {way: scores.filter(like="document").nlargest(2).index for way, scores in by_note.items()}
            hits.append({"method": name, **{way: right == {*notes} for way, notes in best.items()}})
    print(len(hits) // len(methods), "replies")
    frame = pandas.DataFrame(hits, columns=["method", "direct", "all hops", "all words"])
    return frame.groupby("method", sort=False, as_index=False).mean()


both_notes(pairs[:SIZE])

# %% [markdown]
# The value's own scores find both notes in at most 0.42 of the replies. Followed through the reply, `ifr` finds both in
# all 40; `gae` gains (0.30 to 0.47), the others little or nothing. But for these replies nobody needs to follow
# anything: the sum over all words, `answer.sources(rows="reply")`, finds both notes with every method but the random
# one.
#
# In the next replies, the model also says something that the value does not need. They are given, and count if the
# model would write the same value at that place:

# %%
asides = nbsal.samples.texts("asides")
print(asides[0]["question"], asides[0]["reply"], sep="\n")
both_notes(asides[:SIZE])

# %% [markdown]
# No method finds both notes reliably any more. Following hops finds them in at most a third of the replies (`ifr`,
# 0.33); the sum over all words is better with signed methods, 0.75 at best (`gim`). **A reply of several statements
# mixes their sources: explain one statement at a time**, for example by its citations (`12_citations`).
#
# ## A model behind a server
#
# Methods that hide sources need no weights: a server is enough that gives the log-probabilities of a reply, as vLLM and
# llama.cpp do. `nbsal.Endpoint` takes its address. Here it takes a function in place of the server, so that the
# notebook runs offline: from pairs of a prompt and a reply to the log-probabilities of the reply's tokens.


# %%
def server(pairs):
    settings = {"method": "random", "check": False, "progress": False}
    return [nbsal.answer(model, prompt, reply, **settings).tokens()["logprob"].tolist() for prompt, reply in pairs]


served = nbsal.load(nbsal.Endpoint(server, model="notes", budget=100, tokenizer=model.tokenizer))
settings = {"reply": answer.text, "documents": documents}
print("planned:", nbsal.Explainer(served, "occlusion").plan_reply(question, **settings))
behind = nbsal.answer(served, question, method="occlusion", progress=False, **settings)
print(behind.statement().text())
behind.sources(k=2, rows="reply")[["unit", "drop"]]

# %% [markdown]
# The plan is known before anything is sent, and no more requests are sent than the `budget` allows. The sentence is the
# same as above. The drops differ a little from those in this process, because a server cannot leave
# tokens out and keep the positions of the others: the note is cut out of the text. `nbsal doctor --endpoint URL` prints
# what a server can do; the guide [A model behind a server](../.docs/guides/served.md) has the rest.
#
# ## What to take with you
#
# * **For documents, keep the default.** `occlusion` hides each one, and its scores are the drops that were measured.
#   Two documents that say the same hide each other: see exercise 2.
# * **For words of documents, use `attn-lrp` or `gae`.** They found 0.97 of the right words. Scores of `gae` are never
#   negative, so it cannot show what speaks against a word; `attn-lrp` and `occlusion` can.
# * **For answers from several notes, look at the sum over all words first.** Follow hops with `ifr` in short replies
#   only. `ifr` shows where the model reads, whatever it then writes, so it never says why it wrote this word and not
#   another.
# * **Then test**: read the first sentence, or call `judge`. What holds for this small, confident model need not hold
#   for yours: `11_real_models` repeats the comparison with a published one.
#
# **Where to go next:** [`12_citations`](12_citations.ipynb) asks whether a reply uses what it cites,
# [`11_real_models`](11_real_models.ipynb) explains models that others published, and the guide [Generated
# answers](../.docs/guides/generated-answers.md) has messages with tools, encoder-decoders and many replies.
#
# ## Exercises
#
# 1. Ask a question that the notes do not answer. What does the model say, and what does the first sentence say?
# 2. Add the source note a second time. How do `occlusion`, `gae` and `shapley` divide the score between the copies?
#
# <details><summary>Answers</summary>
#
# 1. To "Where did they put the compass?" the model replies "The notes do not say." The sentence says that no document
#    matters: without all of them, the reply is still over 99.9 % probable.
# 2. Pass `documents=[*documents, documents[0]]` and read `matrix("reply", "document")`. `occlusion` gives both copies
#    0.00, because it hides one copy at a time and the other is left. `gae` gives them 0.41 and 0.25 (0.49 for the
#    single note). `shapley` also hides both at once, and gives them 5.08 and 4.58 (13.71 for the single note).
#
# </details>
