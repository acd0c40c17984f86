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
# # Which heads matter? From parses to Mask-LRP
#
# Some attention heads follow grammar: from a subject they attend to its verb. Others attend to a fixed position, such
# as the word before. *Better Explain Transformers by Illuminating Important Information* (Song et al. 2024) selects
# these heads, and lets relevance flow back through them alone: **Mask-LRP**.
#
# This notebook starts from annotated sentences, computes statistics of every head, selects heads for a mask, explains
# a text through the mask, and edits the mask. The last section tests the paper's claim: does it matter *which* heads
# are in the mask?
#
# **You will be able to** find the heads of a model that follow syntax or position, select them for a mask, explain
# through it, edit it, and test whether it matters. Seventeen minutes; you should know what attention is.
#
# Three things are called head. An **attention head** is one of the parallel maps of a block; this notebook is about
# these. The **classification head** is the layer that turns the last hidden state into logits. The **LM head** turns a
# hidden state into words; notebook 02 is about it. In a parse, the word that governs another is often called its head
# too; here it is the *governor*.
#
# | symbol | meaning |
# |---|---|
# | $\alpha_k$ | share of the cases of relation $k$ in which a head's largest attention is on the governor |
# | $\beta_i$ | share of positions at which a head's largest attention is $i$ tokens away (the paper: $\alpha_i$) |
# | $\lambda_{k,d}$ | share of the cases of relation $k$ in which the governor is $d$ words away |
#
# Blocks and heads are counted from 0, the lowest block first.

# %%
# %matplotlib inline
import os
from pathlib import Path

import numpy as np
import pandas

import nbsal
from nbsal.figures import flow, mask_lrp

subject = nbsal.load("demo/reviews")
print(f"{subject.name}: {subject.depth} blocks of {subject.heads} heads")

# %% [markdown]
# ## Parses
#
# A parse has the words of a sentence and, for each word, which word governs it and by which relation. nbsal reads the
# CoNLL-U files of the Universal Dependencies project, spaCy documents (`pip install nbsal[syntax]`), or plain lists.
# The file that comes with nbsal has 150 sentences that were written and annotated for it; no agreement between
# annotators is reported. Each word has a line: its number, itself, and in columns 7 and 8 the number of its governor
# (0: none) and the relation.

# %%
parses = Path(nbsal.samples.__file__).parent / "parses.conllu"
print(*parses.read_text(encoding="utf-8").splitlines()[1:9], sep="\n")

# %% [markdown]
# ## What each head looks at
#
# The study runs the model on all sentences and answers two questions about every head:
#
# * **syntax**: for each word with a relation such as *nsubj* (subject of a verb), is the largest attention of its first
#   token on its governor? The share of cases is $\alpha_k$.
# * **position**: how often is the largest attention at one fixed distance, such as the token before? That is $\beta_i$.
#
# Special tokens, and the attention of a token to itself, are left out. A head that always attends to the next word
# would often find the verb of a subject, because verbs often follow their subjects directly. So a head counts as
# syntactic only if it beats the most common distance by a margin. These are the distances (the paper's Figure 1):

# %%
study = nbsal.heads.study(subject, parses, progress=False)
mask_lrp.relation_distances(study)

# %% [markdown]
# Adjectives (*amod*) stand right before their nouns in most cases; verbs are at various distances from their subjects
# and objects.
#
# ## The mask
#
# A head is *syntactic* if $\alpha_k > \max_d \lambda_{k,d} + 0.1$ for some relation, and *positional* if $\beta_i >
# 0.8$ for some distance. Both thresholds are the paper's. The table has the three heads with the highest $\alpha_k$ of
# each relation, with 95 % intervals over sentences.

# %%
mask = study.mask(synt=0.1, pos=0.8)
print(mask)
thresholds = study.offsets.groupby("relation")["share"].max() + 0.1
best = study.relations.sort_values("alpha", ascending=False).groupby("relation").head(3)
best = best.assign(threshold=best["relation"].map(thresholds)).sort_values("relation", kind="stable")
best["selected"] = np.where(best["alpha"] > best["threshold"], "yes", "")
best["uncertain"] = np.where(best["threshold"].between(best["low"], best["high"]), "yes", "")
best.drop(columns="weak").round(3).style.format(precision=3).hide(axis="index")

# %% [markdown]
# **The selection is uncertain.** Of the four syntactic heads, three (*nsubj* 2-8, *obj* 2-1 and *obj* 3-8) have their
# threshold within their interval: other sentences might leave them out. One of the four positional heads is as
# uncertain, and three other heads might come in; `print(mask)` counts both. Only *obj* 2-0 is clear. With fewer
# sentences this gets worse: `study.relations` marks relations with fewer than thirty cases as `weak`.
#
# **Adjectives and adverbs have no head.** Their best heads do not even reach the most common distance, which is 0.1
# below the threshold. For adjectives, a head would have to be right in more than 97 % of the cases.

# %% tags=["gallery-heads"]
mask_lrp.head_maps({f"{subject.name}, {parses.name}": mask})

# %% [markdown]
# Positional heads are in lower blocks than syntactic ones, as in the paper's Figure 5, though both kinds meet in block
# 2. Blocks 4 and 5 have none.
#
# ## Mask-LRP
#
# Relevance starts as 1 at the logit of the class and flows down through the blocks. Where attention meets the values,
# only the selected heads pass relevance on, rescaled so that the block keeps its total; a block without selected heads
# passes it on as if all were selected. The figure follows relevance through block 2 of the real model (the paper's
# Figure 2 is a sketch of the same):

# %% tags=["gallery-flow"]
text = "The actors are charming, but nobody wrote them a story."
flow.relevance_flow(flow.through_block(subject, text, 2, mask))

# %% [markdown]
# The mask moves the relevance of twelve heads to four, and doubles the relevance of *charming* at the input of this
# block; the scores of the whole model, below, multiply the maps of all blocks. Two thirds of the relevance bypass
# attention through the residual connection.
#
# The method is used like any other. The embedded models have a mask already; here we pass the one computed above.

# %%
explain = nbsal.Explainer(subject, "mask-lrp", mask=mask)
explain(text)

# %% [markdown]
# The final score is a product of all blocks' maps, to each of which the identity is added for the residual connection.
# It puts a score of 1 on `[CLS]` itself, so 99 % of the score lie there for any text. Only the order and the
# proportions of the words mean something: *nobody* has most of what they get.
#
# ## Editing the mask
#
# `Heads` shows the heads as a grid beside the text. In a running notebook a click switches a head on or off. From
# Python, `kind` chooses the heads to start from, `toggled` lists those that are switched, and `mask` is the result. A
# head that is off does two things in this view: it passes no relevance on, so the *scores* change; and its output is
# set to zero in a second run of the model, which shows what becomes of the *prediction*.

# %%
view = nbsal.widgets.Heads(explain, text=text, study=study, kind="both").wait()
view

# %% [markdown]
# With the 64 other heads set to zero, the prediction flips to positive. That says nothing about these eight: any 64
# heads might do it. The scores are computed with the eight heads as mask, from a run in which no head is set to zero.
# In the attention map of head 0 in block 2, rows attend to columns: the object
# *them* attends to its verb *wrote*.
#
# What happens to the scores if we switch on the 64 other heads instead? The table has each word's share of the score
# of all words (special tokens are left out).

# %%
masks = {"discovered heads": mask, "all other heads": ~mask}
scores = {name: nbsal.Explainer(subject, "mask-lrp", mask=heads)(text) for name, heads in masks.items()}
shares = pandas.DataFrame({name: mask_lrp.score_shares(one).scores for name, one in scores.items()}, view.result.tokens)
shares.iloc[list(view.result.row.content)].nlargest(5, "discovered heads").round(3)

# %% [markdown]
# Hardly anything. On this text, the opposite heads give the same explanation.
#
# ## Does it matter which heads?
#
# The paper argues that it does. We compare the discovered mask with random masks that have the same number of syntactic
# and positional heads, with the mask of all heads (which is identical to the transformer attribution of Chefer et al.),
# and with methods that use no mask. AOPC is the mean loss of probability when the most important tokens are replaced by
# padding, so *high* is good; log-odds is the mean change of the log-probability, so *low* is good.

# %%
SIZE = int(os.environ.get("NBSAL_SIZE", 24))  # texts


def through(heads):
    return nbsal.Explainer(subject, "mask-lrp", mask=nbsal.heads.HeadMask.from_array(heads))


explainers = {
    "discovered mask": explain,
    "syntactic heads only": through(mask.syntactic),
    "positional heads only": through(mask.positional),
    "random masks": [nbsal.Explainer(subject, "mask-lrp", mask=mask.matched_random(seed)) for seed in range(3)],
    "all heads": through(np.ones(mask.shape)),
    "gradient x activation l5": nbsal.Explainer(subject, "gradxact", layer=5),
    "random order": [nbsal.Explainer(subject, "random", seed=seed) for seed in range(3)],
}
reviews = nbsal.data.load("samples/reviews", shortest=14, tokenizer=subject.tokenizer).sample(SIZE, random_state=0)
results = nbsal.evaluation.faithfulness(explainers, reviews["text"].tolist(), progress=False)
means = results.mean().pivot(index="explainer", columns="measure", values="mean").loc[results.explainers]
paper = pandas.DataFrame(  # Tables 1 and 3: BERT base on SST-2, with the program that its authors published
    {"aopc": [0.438, 0.438, 0.437, 0.432, 0.423], "log-odds": [-1.208, -1.208, -1.205, -1.205, -1.171]},
    index=results.explainers[:5],
)
side = {f"{name}, {where}": table[name] for name in paper for where, table in (("here", means), ("paper", paper))}
pandas.DataFrame(side).loc[results.explainers].style.format("{:.3f}", na_rep="")

# %%
margins = results.paired("discovered mask", measures=["aopc", "log-odds"])
margins["p_holm"] = margins["p_holm"].map(lambda p: "< 0.001" if p < 0.001 else f"{p:.3f}")
margins[["second", "measure", "margin", "low", "high", "p_holm"]].round(3).replace(-0.0, 0.0)

# %% [markdown]
# The first table has the means on 24 reviews here, and on SST-2 in the paper. The second has how much better the
# discovered mask is than each other explainer, with 95 % intervals and p-values of paired tests, adjusted for their
# number (Holm).
#
# **The mask hardly matters here.** The discovered mask beats random *orders* clearly, but neither random masks nor all
# heads, by either measure. In the paper the lead over random masks is 0.006, and our intervals are wider than that: 24
# texts could not show it. On 50 samples drawn anew from the reviews, 100 sentences of SST-2, and 50 short reviews of
# IMDB and Yelp, the margins over random masks and all heads are between -0.003 and 0.003 in AOPC, none beyond chance
# [1].
#
# **A simpler method may do as well.** Gradient times activation at layer 5 uses no mask and no relevance. Here the
# difference cannot be told from chance; on the three other sets it leads by 0.02 to 0.10, once beyond chance. The layer
# matters: at layer 4 it is behind by 0.08 on the samples [1].
#
# **What follows for you.** Use the study to see what the heads of *your* model attend to, and mind its intervals. Do
# not expect better explanations from the mask: test it against random masks on your texts, as above.
#
# **Readings of the paper.** The equations, the text and the published program differ. `mask-lrp` is nbsal's default
# reading, `mask-lrp@equations` follows equations 9 and 10 literally, and `mask-lrp@published` reproduces the program,
# bugs included. [`06_mask_lrp_paper`](06_mask_lrp_paper.ipynb) shows where they differ.
#
# ## Where to go next
#
# * [`04_relevance_propagation`](04_relevance_propagation.ipynb) shows the rules by which relevance flows.
# * [`06_mask_lrp_paper`](06_mask_lrp_paper.ipynb) draws the figures and tables of the paper.
# * [`08_judging_explanations`](08_judging_explanations.ipynb) is about tests like the one above.
#
# ## Exercises
#
# 1. Halve the margin (`study.mask(synt=0.05, pos=0.8)`). Which relations get a head, and does faithfulness change?
# 2. Explain the text through the positional heads only. What changes?
# 3. Is the head that is best for *nsubj* here also the best in `nbsal.load("demo/news")`?
#
# <details><summary>Answers</summary>
#
# 1. `print(study.mask(synt=0.05, pos=0.8))`: *nsubj* gets one more head. Add it to the explainers: the discovered mask
#    is better by 0.004 in AOPC, with an interval from -0.002 to 0.013, so no change can be shown.
# 2. `through(mask.positional)(text)`: nothing that can be seen. *nobody* still has 0.70 of the score of the words.
# 3. Yes: `nbsal.heads.study(nbsal.load("demo/news"), parses, progress=False).relations` has head 8 of block 2 first
#    (0.543), closely before head 4 of block 1 (0.526). Both models were fine-tuned from one encoder.
#
# </details>
#
# [1] Printed by `python -m tests.claims 03` in a checkout of nbsal, with the benchmark tables in the folder
# `NBSAL_DATA`.
