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
# # Auditing a guard
#
# A guard stands before a service and stops harmful requests. Users complain: harmless ones are stopped too. Which
# words set it off, how many of its mistakes hang on them, and does retraining mend it?
#
# **You will be able to** audit a classifier over many texts, read what hiding a word corrects and breaks, find the
# words behind single mistakes, mend the model, and compare it before and after. Ten minutes; you should know what a
# text classifier is.
#
# The guard is `planted/punctuation`, a tiny model of our own for messages of a made-up world. It is *meant* to decide
# by the verb (how to *paint*, how to *forge*), and it has a fault that we planted. Try to name it before the audit
# does.

# %%
# %matplotlib inline
import os
from itertools import islice

import pandas
import torch

import nbsal
from nbsal.samples import planted

SIZE = int(os.environ.get("NBSAL_SIZE", 400))  # messages of the audit
BRIEF = SIZE < 10  # a trial run
pandas.set_option("display.precision", 2)
torch.manual_seed(0)
guard = nbsal.load("planted/punctuation")
texts, labels = planted.audit_texts(seed=7, size=SIZE)
pandas.DataFrame({"text": texts, "label": labels}).head()

# %% [markdown]
# ## One text is not enough
#
# The usual explanation is of one message. Occlusion hides one token at a time; this message has two quotation marks,
# and with either of them gone the other one still decides, so that both score next to nothing. Only the check in the
# first sentence, which hides both, shows what they do. Nor does one message say how often this happens.

# %%
explain = nbsal.Explainer(guard, "occlusion")
stopped = [text for text, label in zip(texts, labels, strict=True) if label == "harmless" and '"' in text]
explain((stopped or texts)[0], check=True)

# %% [markdown]
# ## The audit
#
# Scores propose: a word is a candidate if the scores of at least five messages name it, or if hiding it corrects as
# many mistakes. Then each candidate is hidden in *every* message that has it. The plan says before how many passes that
# takes:

# %%
LEAST = 1 if BRIEF else 5
print(nbsal.evaluation.plan_audit(explain, texts, least=LEAST))
cache = nbsal.evaluation.Cache()
audit = nbsal.audit(explain, texts, labels, least=LEAST, cache=cache, progress=False)
audit

# %%
pandas.concat([audit.words.head(4), audit.words.tail(4)])

# %% [markdown]
# `corrects` counts wrong decisions that become right without the word, `breaks` right ones that become wrong. `pull`
# is by how much the word raises the log-odds of its class, on average over all messages that have it. `excess` is how
# much more often than their labels messages with the word are decided so. `p_holm` is how likely such a net effect is
# by chance, adjusted for all tests of all words that could be tried, and `kind` says which test a word passes. `flips`
# are all decisions that change, `flips_random` those that change if a random other word is hidden instead. A word is
# hidden at all of its places at once, so `pull` can be large where `score`, the mean over messages, is next to nothing.
#
# The verbs are at the end: hiding one *breaks* decisions, as it should. A shortcut looks otherwise: hiding it corrects
# more than it breaks, and messages that are *not* harmful are stopped more often with it than without.

# %%
words, slices = audit.beyond_chance
words[["word", "kind", "speaks_for", "texts", "pull", "corrects", "breaks", "excess", "p_holm"]]

# %% [markdown]
# In a running notebook, the view shows the same: choose a word to see its messages, or several to hide them together.
# `audit.plot()` is a picture of the words, `audit.to_html()` a report that you can send.

# %%
nbsal.widgets.Audit(audit).wait()

# %% [markdown]
# ## Its mistakes, one by one
#
# For every mistake, a small set of words whose hiding corrects it. Some are corrected by a word that is not at fault,
# such as *kidnap*, and some by none: one label in twenty is wrong here, and no model can be right about those.

# %%
mistakes = audit.mistakes
print(f"{len(mistakes)} mistakes, {int(mistakes.corrected.sum())} corrected by hiding words")
mistakes[["text", "label", "prediction", "words"]].head(6)

# %% [markdown]
# `nbsal.flip(explain, text)` finds such a set for any text. `slices` asks the same of parts of the messages: are
# there more mistakes in long ones, in those that begin with a certain word, in groups of your own? Here the groups
# are whether a message has quotation marks, and whether it has asterisks.

# %%
groups = {"quotation marks": ['"' in text for text in texts], "asterisks": ["*" in text for text in texts]}
grouped = nbsal.audit(explain, texts, labels, groups=groups, least=LEAST, cache=cache, progress=False)
grouped.slices[["slice", "value", "texts", "rate", "low", "high", "rest", "p_holm"]].head(5)

# %% [markdown]
# ## The fix
#
# Two ways. A **rule** takes quotation marks and asterisks out before the guard reads a message: quick, but only for
# the words that were found. **Training on** with messages in which punctuation says nothing teaches the model itself:

# %%
mended = nbsal.load("planted/punctuation")
messages, steps = planted.draw(seed=1234), 20 if BRIEF else 300
optimizer = torch.optim.AdamW(mended.model.parameters(), lr=1e-3)
mended.model.train().requires_grad_(True)
for _ in range(steps):
    batch = list(islice(messages, 64))
    inputs = mended.tokenizer([message.text for message in batch], padding=True, return_tensors="pt")
    loss = mended.model(**inputs, labels=torch.tensor([message.evidence for message in batch])).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
mended.model.eval().requires_grad_(False)
print(f"last loss {loss.item():.3f}")

# %% [markdown]
# ## Before and after
#
# New messages, since the old ones led to the fix. The same words are hidden from both models; columns that end in
# `_other` are those of the mended one.

# %%
fresh, truth = planted.audit_texts(seed=8, size=SIZE)
both = nbsal.audit(explain, fresh, truth, other=nbsal.Explainer(mended, "occlusion"), least=LEAST, progress=False)
measured = [f"{name}{model}" for name in ("corrects", "breaks", "excess") for model in ("", "_other")]
columns = ["word", "speaks_for", "texts", *measured]
both.words[both.words.word.isin(words.word)][columns] if len(words) else both.words[columns].head()

# %%
by_rule = [text.replace('"', "").replace("*", "") for text in fresh]
ruled = nbsal.audit(explain, by_rule, truth, least=LEAST, progress=False)
share = {"before": both, "with the rule": ruled, "trained on": both.other}
pandas.Series({name: len(each.wrong) / len(fresh) for name, each in share.items()}, name="share of mistakes").to_frame()

# %% [markdown]
# ## What an audit cannot show
#
# * **Words that scores never name, and that correct no mistake, are not tried.** Scores that are chance propose
#   whatever is frequent. Here that happens to include both marks; without labels, a rare shortcut would be missed:

# %%
blind = nbsal.audit(nbsal.Explainer(guard, "random"), texts, labels, least=LEAST, progress=False)
print(sorted(set(blind.words.word)))
blind.beyond_chance[0][["word", "corrects", "breaks", "p_holm"]]

# %% [markdown]
# * **Words that stand in for one another.** If two words mean the same to a model and always come together, hiding
#   either changes nothing. `audit.hide([...])` hides several at once.
# * **What is not a word.** A model may go by length or by place; slices can show that, and only those that you
#   thought of.
# * **Other data.** What a model does not go by here it may go by elsewhere.
# * **Why.** That a word corrects mistakes does not say how the model came to it.
#
# ## Exercises
#
# 1. Audit `planted/name`. Which way does its shortcut go, and what does that mean for a guard?
# 2. Audit `planted/control`. What is found, and what does the share of mistakes tell you?
# 3. Audit `planted/pair`, whose shortcut needs two words. Which columns differ from those of a single word?
#
# <details><summary>Answers</summary>
#
# 1. *dana* speaks for *harmless*: harmful messages pass if the name is in them. Hiding it corrects misses rather than
#    false alarms.
# 2. Nothing is found beyond chance: the mistakes left are the wrong labels, about one in twenty.
# 3. Both words are found, each with a pull that is large in some messages and nearly nothing in the others, since
#    either word alone does nothing: `audit.without("tonight")` shows which.
#
# </details>
