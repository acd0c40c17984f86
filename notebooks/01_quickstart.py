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
# A small fine-tuned transformer comes with nbsal, so everything below runs without a network. Five sections: why, the
# numbers, why not the other class, many texts, and a text of yours.
#
# **You will be able to** explain a decision of a classifier, test the explanation, read its scores as a table, ask
# about the other class, and see which words score highest in each class. It takes seven minutes and a little Python;
# you need no knowledge of explanations.
#
# **1. Why?** In a running notebook the view below is live: press *Edit text* and type, click words to select them, and
# open the layers and attention heads below it. *Without a kernel you see a picture of it.*

# %%
import nbsal

subject = nbsal.load("demo/reviews")  # or your own: a folder, a hub id, a model in memory
text = "A slow start, but the second half is warm, funny and beautifully played."
view = nbsal.why(subject, text)
view.wait()

# %% [markdown]
# The first line gives the prediction. It also gives the prediction after high-scoring words are hidden and the model is
# run again. Without *beautifully*, *funny* and *warm* together, the review would be called negative. Hiding any one of
# them, or three random words, changes almost nothing.
#
# Orange words support the prediction; blue ones, with a dashed line below, speak against it. The scores only suggest
# which words matter; the lines in small type test this by hiding words. The scores come from AttnLRP, the default
# method for this model. The first line leaves out *is*: it scores third, but it is a function word. The curve at the
# bottom hides it as well, so it needs four words. It ends at 76 % because the model calls an empty text positive.
#
# **2. The numbers.** `view.result` is the explanation in the view. It can be tabulated, drawn and saved. These are its
# five highest-scored tokens, with the characters of the text that they cover:

# %%
explanation = view.result
print(f"{explanation.prediction}, explained by {explanation.method} at {explanation.provenance['model']}")
explanation.top(5)[["token", "score", "start", "end"]]

# %% [markdown]
# **3. Why not?** An `Explainer` combines a model with a method. Its `target` can be the other class or, as here, the
# difference between the logits of two classes.

# %%
explain = nbsal.Explainer(subject)
explain(text, target=nbsal.contrast("negative", "positive"), check=True)

# %% [markdown]
# The values are differences of logits, not percentages: below 0, *positive* is ahead. *beautifully* is the strongest
# word against *negative*. Hiding it raises the difference more than any other word that was tested, but no single word
# brings it above 0.
#
# **4. Many texts.** `map` explains a list in batches. Here the scores are added up by predicted class, and weighted by
# how rare a word is. `nbsal.why(subject, texts, labels)` shows such a list as a view.

# %% tags=["gallery-classes"]
# %matplotlib inline
texts = nbsal.data.load("samples/reviews").sample(40, random_state=0)["text"].tolist()
cloud = nbsal.clouds.rank(explain.map(texts, progress=False), unit="word")
figure = cloud.plot(12)

# %% [markdown]
# The larger a word, the higher its weighted score. Most words are judgements, as they should be, but *never* is among
# the positive ones: 40 texts are an anecdote. [`10_auditing_a_guard`](10_auditing_a_guard.ipynb) tests words on more.
#
# **5. Your turn.** Change the text. Or load your own model: `nbsal.load("path/or/hub-id")`.

# %%
text = "Nobody will call this film boring."
print(nbsal.flip(explain, text))
explain(text, check=True)

# %% [markdown]
# The model is wrong: this sentence praises the film. The scores rank *boring* first, but hiding it alone does not
# change the decision. `nbsal.flip` searches for words that do: both *Nobody* and *boring* must go, although the scores
# count *Nobody* against *negative*.
#
# **What follows for you.** Read the scores as a suggestion, and quote what hiding the words does. Where hiding
# contradicts the scores, do not rely on them.
#
# ## Where to go next
#
# * [`02_gradcam_decoding`](02_gradcam_decoding.ipynb): which words a hidden layer supports, from equation 1 to tests
# * [`03_head_mask_discovery`](03_head_mask_discovery.ipynb): which attention heads follow syntax or position
# * [`04_relevance_propagation`](04_relevance_propagation.ipynb): relevance, followed block by block
# * [`05_decoding_paper`](05_decoding_paper.ipynb), [`06_mask_lrp_paper`](06_mask_lrp_paper.ipynb): two papers, redrawn
# * [`07_your_own_model`](07_your_own_model.ipynb): folders, pairs, spans, next tokens, a method of your own
# * [`08_judging_explanations`](08_judging_explanations.ipynb): when to believe an explanation, and when not
# * [`09_generated_answers`](09_generated_answers.ipynb): which documents and messages a reply comes from
# * [`10_auditing_a_guard`](10_auditing_a_guard.ipynb): spurious correlations of a classifier, over many texts
# * [`11_real_models`](11_real_models.ipynb): a chat model and a classifier that others published
# * [`12_citations`](12_citations.ipynb): whether a reply uses the documents that it cites
#
# ## Exercises
#
# 1. Which words does the decision in section 5 depend on? Try "Everybody" for "Nobody", then *great* for *boring*, in
#    all combinations.
# 2. Explain the first text with `nbsal.Explainer(subject, "occlusion")`. Do both methods rank the same words first?
# 3. Draw the clouds of the method `"decoded-simple"`. Is every large word a judgement of its class?
#
# <details><summary>Answers</summary>
#
# 1. On *Nobody* and *boring*: without either alone it stays negative, without both it is positive. With "Everybody",
#    *boring* decides. With *great* in its place the first word does: "Nobody will call this film great." is negative
#    because of *Nobody*, "Everybody ..." is positive.
# 2. `nbsal.Explainer(subject, "occlusion")(explanation.text).top(2)`: both rank *beautifully* first; occlusion has *is*
#    second, AttnLRP *funny*. Where two methods differ, neither is wrong by that alone: occlusion hides words, AttnLRP
#    follows the decision back through the model (notebook 08).
# 3. `nbsal.clouds.rank(nbsal.Explainer(subject, "decoded-simple").map(texts, progress=False), unit="word").plot(12)`.
#    No: *good* is large in the negative cloud and *miscast* in the positive one. Simple is the size of a gradient,
#    which has no sign, so words against a class count too.
#
# </details>
