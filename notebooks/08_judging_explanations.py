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
# # Judging explanations
#
# A highlighted sentence convinces at once, which is the trouble with it. It convinces whether it is right or wrong.
# This notebook shows checks that wrong explanations often fail: it hides words, compares methods on the same texts, and
# ends with a table of which method passed which check.
#
# Two questions must be kept apart. Is the explanation **faithful**: did the model decide because of these tokens? Is it
# **plausible**: would a person have marked the same ones? Only the first is about the model.
#
# **You will be able to** test an explanation by hiding words, compare methods on the same texts with intervals, and
# recognise explanations that should not be believed. Twenty-five minutes; you should have read notebook 01.
#
# Six methods are judged; you need to know none of them. AttnLRP, nbsal's default, propagates relevance back from the
# output. Occlusion hides each token in turn. Decoded Grad-CAM reads one hidden layer through an LM head. Simple is the
# size of the gradient at the embeddings, AttCAT is attention times gradient, and rollout is attention alone. The model
# is `demo/reviews`; the texts come with nbsal, or are SST-2 if `NBSAL_DATA` names a folder of benchmark tables.

# %%
# %matplotlib inline
import copy
import os

import numpy as np
import pandas
import torch
from matplotlib.figure import Figure

import nbsal

DATA = os.environ.get("NBSAL_DATA")
SIZE = int(os.environ.get("NBSAL_SIZE", 160)) or None  # texts; 0: all

subject = nbsal.load("demo/reviews")
table = "sst2" if DATA else "samples/reviews"
frame = nbsal.data.load(table, shortest=10, tokenizer=subject.tokenizer)
frame = frame.sample(min(SIZE or len(frame), len(frame)), random_state=0)
cache = nbsal.evaluation.Cache()  # explanations are computed once and used by every measure
print(f"{subject.name} on {table}, {len(frame)} texts of 10 tokens or more")

# %% [markdown]
# ## One text, word by word
#
# The Hiding game hides the word with the highest score, then the next, and watches the prediction. In a running
# notebook you can drag along the curve. The grey band is the range of ten random orders, each measured at five points.

# %%
view = nbsal.widgets.Games(
    nbsal.Explainer(subject), text="The acting is fine, but the script is a tired and lifeless mess.", at=3
)
view.wait()

# %% [markdown]
# After three words the prediction turns; random orders need 12 to 15 on average. As long as the curve runs inside the
# band, here for two words, it shows nothing.
#
# ## Choose on some texts, report on others
#
# One text proves nothing, so we take many. Decoded Grad-CAM must first choose a layer. If you try seven layers and
# report the best one on the same texts, part of what you report is luck. `best_layer` chooses on a quarter of the
# texts; everything below is measured on the others.

# %%
quarter = max(len(frame) // 4, 1)
texts, labels = nbsal.data.texts(frame[quarter:]), frame["label"].tolist()[quarter:]
layer = nbsal.evaluation.best_layer(
    nbsal.Explainer(subject, "decoded-gradcam"),
    nbsal.data.texts(frame[:quarter]),
    frame["label"].tolist()[:quarter],
    progress=False,
)
print(f"layer {layer}, chosen on {quarter} texts; {len(texts)} other texts are left")

# %% [markdown]
# ## Many texts, with intervals
#
# The Revealing game starts from an empty text and shows the tokens with the highest scores first. In both games we draw
# the accuracy against the share of tokens shown or hidden, and the area under that curve sums it up: high is good in
# the Revealing game, low in the Hiding game. The 95 % interval says how far the area would vary with other *texts* of
# the same kind. A hidden token is taken out of attention.

# %%
explainers = {
    "AttnLRP": nbsal.Explainer(subject),
    "occlusion": nbsal.Explainer(subject, "occlusion"),
    "decoded Grad-CAM": nbsal.Explainer(subject, "decoded-gradcam", layer=layer),
    "Simple": nbsal.Explainer(subject, "simple"),
    "AttCAT": nbsal.Explainer(subject, "attcat"),
    "rollout": nbsal.Explainer(subject, "rollout"),
}
settings = {"fractions": [step / 10 for step in range(11)], "cache": cache, "progress": False}
games = nbsal.evaluation.games(explainers, texts, labels, random=min(SIZE or 10, 10), **settings)
games

# %% [markdown]
# Bold is the best, italic the second. Many intervals overlap, which says little: all methods were tested on the *same*
# texts, and hard texts are hard for all of them. The right question is about the difference on the same texts. Of many
# comparisons some look significant by luck alone, so `p_holm` adjusts each p for the number of comparisons in the
# table. `margin` is by how much the default is better:

# %%
pairs = games.paired("AttnLRP").sort_values("game", ascending=False, kind="stable")
pairs[["game", "second", "margin", "low", "high", "p_holm"]].style.hide().format(precision=3)

# %% [markdown]
# In the Hiding game the default is better than every other method, by 0.08 (occlusion) to 0.32 (random orders), with
# adjusted p-values of at most 0.002. In the Revealing game it is better than rollout and random orders; from the other
# four it cannot be told apart.
#
# How many texts does it take? The interval of a margin narrows with the square root of their number:

# %%
rows = {}
for count in (10, 40, len(texts)):
    two = {name: explainers[name] for name in ("AttnLRP", "Simple")}
    part = nbsal.evaluation.games(two, texts[:count], labels[:count], random=0, **settings)
    rows[f"{count} texts"] = part.paired("AttnLRP", "Simple", ["hiding"]).iloc[0][["margin", "low", "high"]]
pandas.DataFrame(rows).T.astype(float).round(3)

# %% [markdown]
# Ten texts show nothing. Forty are enough for a margin of 0.2, but not for one of 0.05 (exercise 3).
#
# ## Does it matter how words are hidden?
#
# "Without this token" can mean three things: replaced by padding that the other tokens see (as in the papers), replaced
# by the mask token, or removed. The model never saw visible padding in training. If the ranking of methods changes with
# how tokens are hidden, the measure tells you about hiding, not about the methods. AOPC, the area over the perturbation
# curve, is by how much the probability falls on average when the tokens with the highest scores are hidden; high is
# good.

# %%
hidden = {
    way: nbsal.evaluation.faithfulness(
        explainers, texts, measures=["aopc"], way=way, random=3, cache=cache, progress=False
    )
    for way in ("pad", "mask", "remove")
}
aopc = pandas.DataFrame({way: results.mean().set_index("explainer")["mean"] for way, results in hidden.items()})
aopc.rename_axis(None).sort_values("remove", ascending=False).round(3)

# %% [markdown]
# All three give the same ranking, so here it does not depend on how words are hidden. The values do: those of random
# orders, rollout and Simple are highest with visible padding, those of the other four with removal. So never compare
# values from different ways of hiding.
#
# ## Do methods agree with each other?
#
# Kendall's tau compares two rankings of the tokens: 1 means the same order, 0 no relation, -1 the reverse.

# %% tags=["gallery-agreement"]
agreement = nbsal.evaluation.rank_agreement(explainers, texts, cache=cache, progress=False).mean()
labels_of_axes = list(explainers)
grid = np.eye(len(labels_of_axes))
for pair, tau in agreement[agreement["measure"] == "kendall"][["explainer", "mean"]].itertuples(index=False):
    first, second = (labels_of_axes.index(name) for name in pair.split(" ~ "))
    grid[first, second] = grid[second, first] = tau
figure = Figure(figsize=(5.4, 4.4), layout="constrained")
ax = figure.subplots()
ax.imshow(grid, cmap="cividis", vmin=-0.2, vmax=1)
for i, j in np.ndindex(grid.shape):
    ax.text(j, i, f"{grid[i, j]:.2f}", ha="center", va="center", color="white" if grid[i, j] < 0.5 else "black")
ax.set_xticks(range(len(grid)), labels_of_axes, rotation=40, ha="right")
ax.set_yticks(range(len(grid)), labels_of_axes)
ax.set_title("Kendall's tau between methods")
figure

# %% [markdown]
# AttnLRP, occlusion, decoded Grad-CAM and AttCAT agree in part (0.28 to 0.65). Simple and rollout agree with no other
# method (at most 0.15). That does not say who is wrong: two methods may answer different questions, and two that agree
# may both be wrong. For that we need to know the truth.
#
# ## Does it mark what a person would?
#
# `rationale_agreement` compares an explanation with words that a person marked: by the area under precision and recall
# (auprc), and by F1 over runs of words (iou f1). This measures **plausibility**. A perfectly faithful explanation of a
# model that reads the wrong words fails it, as it should. The five reviews and their marks were written for nbsal by
# one author:

# %%
marked = {
    "A warm and funny film about a family that cannot stop talking.": ["warm and funny"],
    "The acting is fine, but the script is a tired and lifeless mess.": ["tired and lifeless mess"],
    "Beautifully shot, clever, and far shorter than it feels.": ["Beautifully shot, clever"],
    "Two hours of noise that I will never get back.": ["noise", "never get back"],
    "I laughed from the first minute to the last.": ["laughed"],
}
spans = [[(text.index(part), text.index(part) + len(part)) for part in parts] for text, parts in marked.items()]
nbsal.evaluation.rationale_agreement(explainers, list(marked), spans, progress=False)

# %% [markdown]
# Five texts show how it is done and no more: most intervals of iou f1 reach from 0 to 1.
#
# ## Where the truth is known
#
# nbsal comes with five tiny classifiers that rely on something that is no evidence: the word "urgent" anywhere,
# "quietly" and "tonight" only together, "today" only as the first word, quotation marks or asterisks, the name Dana. In
# each message below, the planted word decides against the evidence. In what share of the messages does it have the
# highest score of all words?

# %%
names = dict(zip(explainers, "attn-lrp occlusion decoded-gradcam simple attcat rollout".split(), strict=True))
names |= {"integrated gradients": "integrated", "GAE": "gae", "random": "random"}
planted = nbsal.evaluation.planted(names, size=min(SIZE or 100, 100), progress=False)
shares = planted.mean().pivot(index="explainer", columns="model", values="mean")
shares.rename_axis(None).rename_axis(None, axis=1).loc[planted.explainers, planted.measures].round(2)

# %% [markdown]
# AttnLRP, integrated gradients and GAE always find the word, occlusion and Simple in 95 % of the messages or more.
# Decoded Grad-CAM misses the name, AttCAT the single word, and rollout the pair and the name. A failure shows that
# a method can miss the truth. A pass does not show that it finds the truth in your model: another training run may fool
# other methods (notebook 07).
#
# ## When not to believe an explanation
#
# ### It would look the same for another class
#
# Explain each class in turn, and compare the two rankings by Kendall's tau. An explanation that is the same for both
# classes cannot say why the model chose one of them.


# %%
def mean_tau(some, others):
    return np.mean([nbsal.evaluation.kendall(a.order, b.order) for a, b in zip(some, others, strict=True)])


other_class = {
    name: mean_tau(*(explain.map(texts[:12], targets=label, progress=False) for label in subject.labels))
    for name, explain in explainers.items()
}
pandas.Series(other_class, name="tau between the two classes").round(2).to_frame()

# %% [markdown]
# Rollout is the same for both classes. So is Simple, for another reason: it takes the *size* of the gradient, and with
# two classes the two gradients are nearly mirror images. For the same reason AttnLRP, occlusion and AttCAT reverse
# their order, so with two classes this check is easy to pass. Decoded Grad-CAM, which sets negative evidence to 0,
# reverses it in part.
#
# ### It would look the same for another model
#
# Replace the upper three blocks and the classifier by random ones. This model knows nothing about reviews. An
# explanation that stays the same was about the text or the embeddings, not about the decision (Adebayo et al. 2018).

# %%
broken = copy.deepcopy(subject.model)
torch.manual_seed(0)
for module in (*broken.bert.encoder.layer[3:], broken.bert.pooler, broken.classifier):
    for weight in module.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.05)
ruined = nbsal.load(broken, tokenizer=subject.tokenizer, lm=nbsal.samples.build_lm())  # the LM head of demo/reviews
other_model = {}
for name, explain in explainers.items():
    both = (explain, nbsal.Explainer(ruined, explain.method))
    other_model[name] = mean_tau(*(each.map(texts[:12], targets="positive", progress=False) for each in both))
pandas.Series(other_model, name="tau between the trained and the ruined model").round(2).to_frame()

# %% [markdown]
# Rollout and Simple rank the tokens much alike for a model that knows nothing. What they show is in the text and the
# lower blocks, not in the decision. The rankings of the other four change completely, as they should.
#
# ### The model is wrong
#
# An explanation says what the model *did*, right or wrong. The reviews that come with nbsal have four kinds:

# %%
reviews = nbsal.data.load("samples/reviews").iloc[:SIZE]
decisions = explainers["rollout"].map(reviews["text"].tolist(), progress=False)  # any method: only decisions count here
right = [one.prediction == subject.labels[label] for one, label in zip(decisions, reviews["label"], strict=True)]
kinds = reviews.assign(right=right).groupby("kind")["right"].agg(["mean", "size"])
kinds.rename_axis(None).rename(columns={"mean": "share right", "size": "texts"}).round(2)

# %% [markdown]
# `demo/reviews` is wrong about four ironic reviews of five. Here is another one, which is negative:

# %%
explainers["AttnLRP"]("I loved the ending, because it meant I could finally go home.", check=True)

# %% [markdown]
# The explanation is right about the model: without *loved*, it predicts *negative*. So we see why it fails at irony. We
# do not see *that* it fails; that takes a label.
#
# ### Chance is in it
#
# LIME and Shapley draw samples. Explain one text with several seeds before you interpret the order of its words:

# %%
seeds, rows = min(SIZE or 4, 4), {}
for samples in (20, 100):
    orders = [nbsal.Explainer(subject, "lime", samples=samples, seed=seed)(texts[0]).order for seed in range(seeds)]
    taus = [nbsal.evaluation.kendall(orders[i], orders[j]) for i in range(seeds) for j in range(i)]
    rows[f"LIME, {samples} samples"] = {"mean tau between seeds": np.mean(taus), "lowest": min(taus)}
pandas.DataFrame(rows).T.round(2)

# %% [markdown]
# With 20 samples, two seeds agree little on this text. With 100 they agree better, at five times the price.
#
# ### It does not add up, or did not see everything
#
# Some methods promise that their scores sum to the change of the output from a baseline, such as an empty text. If they
# do not, the method took too few steps. And a text beyond the model's length is explained only up to the cut. Both are
# in `saliency.notes()`, and below each picture.

# %%
long = " ".join(["It goes on and on."] * 90) + " But the end is wonderful, " + "and wonderful, " * 40 + "and warm."
runs = {
    "5 steps": nbsal.Explainer(subject, "integrated", steps=5)(texts[0]),
    "50 steps": nbsal.Explainer(subject, "integrated", steps=50)(texts[0]),
    "long text": explainers["AttnLRP"](long),
    "in windows": nbsal.Explainer(subject, long="window")(long),
}
for name, saliency in runs.items():
    print(f"{name}: {saliency.prediction}. {saliency.notes()[-1]}")

# %% [markdown]
# Five steps leave a gap of 0.15, marked by a triangle; fifty close it. The long text ends with praise that the model
# reads only in overlapping windows, and then the prediction is another.
#
# ## Which method passed which check
#
# The limits are conventions; choose yours before you look. *games*: better than random orders in both games, adjusted p
# below 0.05. *three ways*: a higher AOPC than random orders, however tokens are hidden, adjusted p below 0.05.
# *planted*: the planted word first in 90 % of the messages or more, for all five models. *class* and *model*: a tau
# below 0.5 with the other class and with the ruined model.


# %%
def better_than_random(results, measures):
    pairs = results.paired("random", list(explainers), measures)
    return ((pairs["margin"] < 0) & (pairs["p_holm"] < 0.05)).groupby(pairs["second"]).all()


checks = pandas.DataFrame(
    {
        "games": better_than_random(games, games.measures),
        "three ways": pandas.DataFrame({way: better_than_random(hidden[way], ["aopc"]) for way in hidden}).all(axis=1),
        "planted": shares[planted.measures].min(axis=1) >= 0.9,
        "class": pandas.Series(other_class) < 0.5,
        "model": pandas.Series(other_model) < 0.5,
    }
).loc[list(explainers)]
checks.replace({True: "passed", False: "failed"})

# %% [markdown]
# AttnLRP and occlusion pass all five. AttCAT and decoded Grad-CAM fail where the truth is known: each misses the
# planted word of one model, in most messages or in all. Simple does not depend on the class, and little on the model.
# Rollout beats random orders by AOPC, but not in both games, and fails the rest. So start with AttnLRP, the default,
# and ask occlusion for a second opinion.
#
# If `NBSAL_DATA` is set, this notebook runs on sentences of SST-2. On 120 of them AttnLRP hides better than every other
# method too, by 0.05 (occlusion) to 0.39 (random orders), with adjusted p-values of at most 0.005. The table of checks
# is the same there, except that rollout also fails *three ways*.
#
# ## For your own model
#
# 1. Play both games against random orders, on texts that you did not choose anything on.
# 2. Compare methods by paired differences with adjusted p-values, not by two intervals.
# 3. Say how tokens were hidden, and try another way.
# 4. Explain the other class, and a ruined model.
# 5. Use more than one seed where a method draws samples.
# 6. Say whether you measured faithfulness or plausibility, and look at texts that the model gets wrong.
#
# **Where to go next:** [07 Your own model](07_your_own_model.ipynb) loads your model and plants a reason in it;
# [10 Auditing a guard](10_auditing_a_guard.ipynb) looks for the words that cause mistakes;
# [05](05_decoding_paper.ipynb) and [06](06_mask_lrp_paper.ipynb) put two papers through these checks.
#
# ## Exercises
#
# 1. Add `"random": nbsal.Explainer(subject, "random")` to the explainers of the checks *class* and *model*. Does it
#    pass?
# 2. Which of the six methods pass *planted* if the limit is 98 % instead of 90 %?
# 3. How many texts would it take to show that AttnLRP hides better than Simple if the margin were 0.05?
#
# <details><summary>Answers</summary>
#
# 1. It fails both with a tau of 1: a random order depends on the seed and the text, not on the class or the model.
# 2. Only AttnLRP. Occlusion has 0.95 for punctuation, Simple 0.97 for the name. That is why limits are chosen before.
# 3. With 120 texts the interval reaches 0.075 to either side. Its width falls with the square root of the number, so it
#    reaches 0.05 with about 120 x (0.075 / 0.05)^2 = 270 texts. Then half of all samples would show the margin; twice
#    as many texts would show it four times in five.
#
# </details>
