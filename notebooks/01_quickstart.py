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
# # Quickstart: why was this review called positive?
#
# A small fine-tuned transformer comes with nbsal, so everything below runs without a network. Five cells: why, the
# numbers behind it, why not the other class, many texts at once, and a text of yours.
#
# **You will be able to** explain a decision of a classifier, read its scores as a table, ask about another class, and
# see what a class is made of. Five minutes; you should know a little Python, and nothing about explanations.
#
# **1. Why?** The first line says what was decided, and what becomes of it without the words that matter: they were
# hidden, and the model asked again. Press *Edit text* and type: the answer follows. Beside the text, a curve hides one
# word after the other, and below it, folded, are all layers and the attention heads. The last line says where to go
# next: another class, another method, all texts like this. Click or drag over words to select them; the selection is a
# Python list. *If you read this without a running kernel, you see the view as it stood when the notebook was
# published.*

# %%
import os

import nbsal

DATA = os.environ.get("NBSAL_DATA")  # a folder of benchmark tables; None: the texts that come along
SIZE = int(os.environ.get("NBSAL_SIZE", 40)) or None  # texts for cell 4; 0: all

subject = nbsal.load("demo/reviews")  # or your own: a folder, a hub id, a model in memory
view = nbsal.why(subject, "A slow start, but the second half is warm, funny and beautifully played.")
view.wait()

# %% [markdown]
# Orange words speak for the decision, blue ones with a dashed line against it. The scores propose words, and hiding
# them decides: that is what *checked* says below the first line.
#
# **2. The numbers.** Everything on screen is a view of a plain object. `view.result` is what is shown now; it has
# frames, pictures and files, and says how it was made. In a script, `print(view)` gives its words.

# %%
s = view.result
print(s.prediction, "|", *s.notes())
s.top(5)

# %% [markdown]
# **3. Why not?** Ask about the other class, or about the difference of the two, of an explainer: a model with a method.

# %%
explain = nbsal.Explainer(subject)
explain(s.text, target=nbsal.contrast("negative", "positive"), check=True)

# %% [markdown]
# **4. Many texts.** `nbsal.why(subject, texts, labels)` lists them, and `map` explains a whole list in batches. Added
# up by class and weighted by how rare a word is, the scores show which words each class has most of. With 40 texts that
# is an anecdote; notebook 10 tests words on 400.

# %% tags=["gallery-classes"]
# %matplotlib inline
frame = nbsal.data.load("sst2" if DATA else "samples/reviews")
frame = frame.sample(min(SIZE or len(frame), len(frame)), random_state=0)
many = explain.map(nbsal.data.texts(frame), progress=False)
cloud = nbsal.clouds.rank(many, unit="word")
figure = cloud.plot(25)

# %% [markdown]
# **5. Your turn.** Change the text. Or load your own model: `nbsal.load("path/or/hub-id", lm="its pretrained
# checkpoint")`.

# %%
explain("Nobody will call this film boring.", check=True)

# %% [markdown]
# The shades say which words the scores propose. Whether hiding them changes the decision is the check (`check=True`),
# and here it says that *boring* alone does not: it takes *Nobody* as well, which the scores even count against it.
# `nbsal.flip(explain, text)` searches for such a set. Whether the model is right is another question.
#
# ## Where to go next
#
# | notebook | about |
# |---|---|
# | `02_gradcam_decoding` | what a hidden layer says, from the first equation to the games |
# | `03_head_mask_discovery` | which attention heads follow syntax or position, and Mask-LRP |
# | `04_relevance_propagation` | relevance, followed block by block |
# | `05_decoding_paper`, `06_mask_lrp_paper` | every figure and table of both papers |
# | `07_your_own_model` | folders, pairs, spans, next tokens, a method of your own |
# | `08_judging_explanations` | when to believe a map, and when not |
# | `09_generated_answers` | which documents and messages a reply comes from |
# | `10_auditing_a_guard` | what a classifier goes by over many texts, and which words are behind its mistakes |
#
# ## Exercises
#
# 1. Which words does the decision in cell 5 depend on? Try "Everybody" for "Nobody", then *great* for *boring*, in all
#    combinations.
# 2. Explain the first text with `nbsal.Explainer(subject, "occlusion")`. Do both methods name the same two words?
# 3. Draw the clouds of `"decoded-simple"`. Which class has the more general words?
#
# <details><summary>Answers</summary>
#
# 1. On *Nobody* and *boring*: without either alone it stays negative, without both it is positive. With "Everybody",
#    *boring* decides. With *great* in its place the first word does: "Nobody will call this film great." is negative
#    because of *Nobody*, "Everybody ..." is positive.
# 2. `nbsal.Explainer(subject, "occlusion")(s.text).top(2)`: both name *beautifully* first; occlusion has *is* second,
#    AttnLRP *funny*. Where two methods differ, neither is wrong by that alone: one takes words away, the other follows
#    the decision back through the model (notebook 08).
# 3. `nbsal.clouds.rank(nbsal.Explainer(subject, "decoded-simple").map(texts, progress=False)).plot(25)`. Simple has no
#    sign, so words that speak against a class are in its cloud as well.
#
# </details>
