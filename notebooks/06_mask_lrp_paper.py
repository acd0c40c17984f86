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
# # Mask-LRP, figure by figure
#
# Every figure, table and numbered equation of *Better Explain Transformers by Illuminating Important Information*
# (Song et al. 2024). Notebook 03 introduces the method more slowly.
#
# **After this notebook you can** follow relevance through a masked block with the paper's equations, say how its text
# and its program differ, run an ablation that could have come out either way, and read a table of paired tests.
#
# **Time:** an hour to read, or five minutes for the last table, which has the paper's claims and whether they hold
# here. **Know before:** attention heads, softmax, gradients; notebook 04 explains relevance.
#
# **What differs from the paper.** The paper runs BERT base on five classification sets and three models on two sets
# of questions. This notebook runs nbsal's small embedded models. You can compare the *shapes* of curves with the paper,
# but not their *levels*.
#
# | paper | in the published notebook (`NBSAL_DATA` is set) | without `NBSAL_DATA` |
# |---|---|---|
# | SST-2 | `demo/reviews` on SST-2 | on reviews written for nbsal |
# | MNLI | `demo/nli` on MNLI, zero-shot: it was trained on SNLI | on pairs written for nbsal |
# | IMDB, Yelp | `demo/reviews` on 60 reviews of each, of fewer than 400 characters | paper's numbers only |
# | SQuAD v1 | `demo/answers` on SQuAD v1 | on questions written for nbsal |
# | QQP, SQuAD v2 | paper's numbers only: they need a model trained for them | paper's numbers only |
#
# Set `NBSAL_SIZE=0` to use all texts, of any length, and `NBSAL_RESULTS=folder` to stop and resume.
# `python -m nbsal.figures --paper mask-lrp --model textattack/bert-base-uncased-SST-2 ...` draws the same with the
# paper's own checkpoints, which are in Table 6 below.

# %%
# %matplotlib inline
import os
import tempfile
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pandas
from IPython.display import Markdown, display

import nbsal
from nbsal.evaluation import Cache, Results
from nbsal.evaluation.results import join_results
from nbsal.figures import checkpoints, claims, flow, printed
from nbsal.figures import mask_lrp as paper
from nbsal.heads import HeadMask

DATA = os.environ.get("NBSAL_DATA")  # a folder of benchmark tables and parses; None: the bundled samples
SIZE = int(os.environ.get("NBSAL_SIZE", 200 if DATA else 16)) or None  # texts of SST-2; 0: all
SOME = SIZE and max(SIZE // 2, min(SIZE, 4))  # pairs of MNLI, texts for the studies of the mask, and questions
LONG = SIZE and min(SIZE, 60)  # reviews of IMDB and of Yelp; None: all
RUNS = 2 if SIZE else 5  # random masks, and corruptions at each rate; 5 in the paper
FRACTIONS = [0.1, 0.3, 0.5, 0.7, 0.9] if SIZE else [tenth / 10 for tenth in range(1, 10)]
PERCENT = range(0, 101, 10 if SIZE is None or SIZE > 10 else 50)  # of the other heads, added to a mask
RESULTS = Path(os.environ.get("NBSAL_RESULTS") or tempfile.mkdtemp())  # results stored here are not computed again
pandas.set_option("display.precision", 4)

# %%
reviews, nli, answers = (nbsal.load(f"demo/{name}") for name in ("reviews", "nli", "answers"))


def table(name, sample, subject, size):
    """Texts of 14 tokens or more from a benchmark, or from the samples that stand in."""
    frame = nbsal.data.load(name if DATA else f"samples/{sample}", shortest=14, tokenizer=subject.tokenizer)
    return nbsal.data.texts(frame.sample(len(frame), random_state=0).iloc[:size])


def long_reviews(name):
    """Reviews, of fewer than 400 characters unless all are used."""
    frame = nbsal.data.load(name)
    frame = frame if LONG is None else frame[frame["text"].str.len() < 400]
    return nbsal.data.texts(frame.sample(len(frame), random_state=0).iloc[:LONG])


panels = {"SST-2": (reviews, table("sst2", "reviews", reviews, SIZE)), "MNLI": (nli, table("mnli", "pairs", nli, SOME))}
if DATA:
    panels |= {"IMDB": (reviews, long_reviews("imdb")), "Yelp": (reviews, long_reviews("yelp_polarity"))}
stand_in = "" if DATA else "samples for "
for name, (subject, texts) in panels.items():
    print(f"{stand_in}{name}: {subject.name} on {len(texts)} texts")

# %% [markdown]
# ## The method: equations 1 to 11
#
# | symbol | meaning |
# |---|---|
# | $x^{(n)}$ | input of layer $n$; layers count from the *output* $x^{(1)}$ to the text $x^{(N)}$ |
# | $R^{(n)}_j$ | relevance of element $j$ there |
# | $B$, $M$; $\mathcal M \in \mathbb R^{B \times M}$ | blocks, heads of a block; the head mask, a sum of 0s and 1s |
# | $A^{(b)}$, $\nabla A^{(b)}$ | attention of block $b$, and the gradient of the logit with respect to it |
#
# Three things are called *head*: an **attention head**, which this paper masks; the **classification head** on
# `[CLS]`; and the **syntactic head** of a word, which is the word that governs it (*film* for *affecting* in "an
# affecting film"). A mask of attention heads is built here from syntactic heads.
#
# Gradients follow the chain rule (1). Relevance follows a rule (2) for every operation $L$ of two tensors, which
# keeps the total (3):
#
# $$\nabla x^{(n)}_j = \frac{\partial x^{(1)}_c}{\partial x^{(n)}_j} = \sum_i \frac{\partial x^{(1)}_c}{\partial
# x^{(n-1)}_i} \frac{\partial x^{(n-1)}_i}{\partial x^{(n)}_j} \qquad (1)$$
#
# $$R^{(n)}_j = \mathcal G(X, Y, R^{(n-1)}) = \sum_i X_j \frac{\partial L^{(n)}_i(X, Y)}{\partial X_j}
# \frac{R^{(n-1)}_i}{L^{(n)}_i(X, Y)} \qquad (2)$$
#
# $$\sum_j R^{(n)}_j = \sum_i R^{(n-1)}_i \qquad (3)$$
#
# For linear layers, only contributions that push the output up count, $q = \{(i, j) \mid x_i w_{ij} \ge 0\}$:
#
# $$R^{(n)}_j = \sum_{\{i | (i, j) \in q\}} \frac{x_j w_{ji}}{\sum_{\{j' | (j', i) \in q\}} x_{j'} w_{j'i}}
# R^{(n-1)}_i \qquad (4)$$
#
# Sums and products of two tensors can have tiny denominators and huge parts that cancel. Chefer et al. (2021)
# therefore rescale the relevance of both parts $u$ and $v$, so that the total stays and no part exceeds it:
#
# $$\bar R^{u}_j = R^{u}_j\, \frac{\left|\sum R^{u}\right|}{\left|\sum R^{u}\right| + \left|\sum R^{v}\right|} \cdot
# \frac{\sum R^{(n-1)}}{\sum R^{u}}, \qquad \bar R^{v}_k = R^{v}_k\, \frac{\left|\sum R^{v}\right|}{\left|\sum
# R^{u}\right| + \left|\sum R^{v}\right|} \cdot \frac{\sum R^{(n-1)}}{\sum R^{v}}$$
#
# Song et al. split the relevance of a block by what its heads do (5), and collect the heads that do something in a
# mask (6). A head is syntactic if its strongest attention falls on the governor of a word more often than the most
# common distance alone would explain (7), and positional if it falls on one relative position nearly always (8):
#
# $$R^{(n_b)}_{imp} = R^{(n_b)}_{synt} + R^{(n_b)}_{pos} \qquad (5)$$
#
# $$\mathcal M = \mathcal M_{synt} + \mathcal M_{pos} \qquad (6)$$
#
# $$\mathcal M^{(b,m)}_{synt} = \sum_{k \in K} \mathbb 1\{\alpha^{(b,m)}_k > \max(\lambda_k) + \xi_{synt}\}, \qquad
# \xi_{synt} = 0.1 \qquad (7)$$
#
# $$\mathcal M^{(b,m)}_{pos} = \sum_{i \in I} \mathbb 1\{\alpha^{(b,m)}_i > \xi_{pos}\}, \qquad \xi_{pos} = 0.8
# \qquad (8)$$
#
# Relevance then passes through the selected heads only (9):
#
# $$R^{(n_b)} = \mathcal G(X, Y, R^{(n_b-1)}_{synt} + R^{(n_b-1)}_{pos} + R^{(n_b-1)}_{others}), \qquad
# R^{(n_b)} := R^{(n_b)}_{synt} + R^{(n_b)}_{pos} = \mathcal G(X, Y, \mathcal M^{(b)} R^{(n_b-1)}) \qquad (9)$$
#
# To conserve the total, the paper rescales both parts (it gives these no number). Note the denominator: Chefer et al.
# add absolute values, this takes the absolute value of the sum. The two differ if the parts have different signs, and
# then only the former conserves the total.
#
# $$R^{(n_b)}_{synt} := R^{(n_b)}_{synt} \frac{|\sum R^{(n_b)}_{synt}|}{|\sum R^{(n_b)}|} \cdot \frac{\sum
# R^{(n_b-1)}}{\sum R^{(n_b)}_{synt}}, \qquad R^{(n_b)}_{pos} := R^{(n_b)}_{pos} \frac{|\sum R^{(n_b)}_{pos}|}{|\sum
# R^{(n_b)}|} \cdot \frac{\sum R^{(n_b-1)}}{\sum R^{(n_b)}_{pos}}$$
#
# Last, as in Chefer et al., each block has a map (10), and the maps are multiplied (11):
#
# $$\bar A^{(b)} = \mathbb E_h\big(\nabla A^{(b)} \odot (R^{(n_b)}_{synt} + R^{(n_b)}_{pos})\big)^{+} + I \qquad (10)$$
#
# $$R(x^{(N)}) = \bar A^{(1)} \cdot \bar A^{(2)} \cdots \bar A^{(B)} \qquad (11)$$
#
# ### Three readings of these equations
#
# | reading | a block's map (10) reads | a block without a selected head | rescaled |
# |---|---|---|---|
# | `mask-lrp` (default) | relevance *before* the block's own mask | passes everything | yes |
# | `mask-lrp@equations` | relevance *after* the mask, as printed | passes nothing | yes, as printed |
# | `mask-lrp@published` | before the mask, as the authors' program does | passes nothing | no |
#
# In the default and the published reading a mask can only act on the blocks *below* it. Remember this at the
# ablation.
#
# The next cell computes equations 10 and 11 for one text and compares them with nbsal.

# %% tags=["equations-1-6", "equations-9-11"]
sentence = "A warm and affecting film that takes us on a charming journey."
explain = nbsal.Explainer(reviews, "mask-lrp")
trace = nbsal.trace.record(explain.method_subject, reviews.encode(sentence), [None], explain.method.needs)
rollout = np.eye(len(trace.encoded[0]))
for block in explain.method.blocks(trace):  # from the last block to the first
    evidence = block["mean_relevance_evidence"][0].numpy()  # equation 10 without the identity
    rollout = rollout + rollout @ evidence  # equation 11
difference = abs(rollout[0] - explain(sentence).scores).max()
print("sum of relevance at each layer:", [round(float(trace.relevance[k].sum()), 6) for k in range(7)])
print(f"largest difference to nbsal: {difference:.0e}")

# %% [markdown]
# ## Figure 1: where heads stand
#
# How many words after a dependent its governor stands, by relation. The paper parses SST-2 by machine (with Stanza);
# the published notebook uses the development part of the English Web Treebank, which people annotated.

# %% tags=["figure-1"]
treebank = Path(DATA or ".") / "ud_ewt" / "dev.conllu"
parses = treebank if treebank.exists() else Path(nbsal.samples.__file__).parent / "parses.conllu"
source = "English Web Treebank, development part" if treebank.exists() else "sentences bundled with nbsal"
study = nbsal.heads.study(reviews, parses, progress=False)
print(f"parses: {source}, {study.rows} positions")
paper.relation_distances(study)

# %% [markdown]
# **What the paper saw.** Each relation has one most common distance: adjectives stand right before their noun.
#
# **What you see.** The same. The highest bar of each panel is $\max(\lambda_k)$ of equation 7.
#
# **Why it matters.** A head that always looks one word ahead is right about adjectives most of the time without
# knowing any syntax. So the threshold is the highest bar plus 0.1.
#
# ## Figure 2: relevance through a block
#
# The paper draws boxes and arrows. This is a block of a model on a sentence: what arrives at its output, what each
# head receives before and after the mask, and what reaches its input with and without the mask.

# %% tags=["figure-2"]
busiest = int(reviews.mask.selected.sum(1).argmax())
flow.relevance_flow(flow.through_block(reviews, sentence, busiest))

# %% [markdown]
# **What you see.** In this block, most relevance bypasses attention through the residual connection (the title of the
# second panel says how much). The mask stops the white bars of heads that it does not select, and rescales the others,
# so that the total stays.
#
# **Why it matters.** What the mask can change at all is the part that goes through attention. How large it is depends
# on the block and the text: on ten other texts it is 0.08 to 0.72 of the relevance in this block (0.30 in the
# median), and 0.77 to 0.96 in the top block, where the mask selects no head. Numbers for other texts are printed by
# `python -m tests.claims 06`, with `NBSAL_DATA` set.
#
# ## Figure 3: faithfulness
#
# The most important tokens are replaced by padding, a share $k$ at a time. AOPC is the mean loss of the predicted
# class's probability (high is good), log-odds the mean logarithm of what is left of it (low is good):
#
# $$\mathrm{AOPC}(k) = \frac 1T \sum_{t=1}^{T} f_{\hat y}(x_t) - f_{\hat y}(\tilde x^k_t) \qquad (12)$$
#
# $$\mathrm{LOdds}(k) = \frac 1T \sum_{t=1}^{T} \log \frac{f_{\hat y}(\tilde x^k_t)}{f_{\hat y}(x_t)} \qquad (13)$$
#
# The paper's names: RawAtt `raw-attention`, CAM `attention-cam`, GradCAM `attention-gradcam`, ALTC `alti`. What it
# calls **GAE** cites one paper and runs the method of another, `transformer-attribution`; that is what GAE means in
# this notebook, in every figure and table. "Random" in the paper is a random *mask*, with as many heads as its own.

# %% tags=["equations-12-13"]
BASELINES = tuple(name for name in printed.DELETION["SST-2"] if name not in ("random mask", "mask-lrp"))
READINGS = ("mask-lrp", "mask-lrp@equations", "mask-lrp@published")


def masked(subject, masks, reading="mask-lrp"):
    return [nbsal.Explainer(subject, reading, mask=mask) for mask in masks]


def members(subject):
    named = {name: nbsal.Explainer(subject, name) for name in (*BASELINES, "mask-lrp")}
    return named | {
        "random mask": masked(subject, [subject.mask.matched_random(seed) for seed in range(RUNS)]),
        "gradxact l5": nbsal.Explainer(subject, "gradxact", layer=5),
        "random": [nbsal.Explainer(subject, "random", seed=seed) for seed in range(RUNS)],
    }


caches = {subject: Cache() for subject in (reviews, nli)}


def evaluate(name, explainers, texts):
    """AOPC and log-odds of each explainer; results that were stored before are loaded."""
    paths = {label: RESULTS / f"{name}-{len(texts)}-{label}.nbsal" for label in explainers}
    missing = {label: runs for label, runs in explainers.items() if not paths[label].exists()}
    if missing:
        runs = next(iter(missing.values()))
        subject = (runs[0] if isinstance(runs, list) else runs).subject
        options = {"fractions": FRACTIONS, "measures": ("aopc", "log-odds"), "cache": caches[subject]}
        results = nbsal.evaluation.faithfulness(missing, texts, progress=False, **options)
        for label in missing:
            curves = {key: curve for key, curve in results.curves.items() if key[0] == label}
            Results(results.metric, curves, results.notes).save(paths[label])
    return join_results([Results.load(path) for path in paths.values()])


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    deletion = {
        name: evaluate(f"{stand_in}{name}", members(subject), texts) for name, (subject, texts) in panels.items()
    }
print(f"{len(caught)} warnings", *(f"such as: {warning.message}" for warning in caught[:1]))

# %% tags=["figure-3"]
print(*deletion["SST-2"].notes, sep="; ")
EIGHT = [name for name in BASELINES if name != "alti"]
paper.deletion_curves(deletion["SST-2"], ["mask-lrp", *EIGHT, "random mask"])

# %% [markdown]
# **What the paper saw.** Mask-LRP is best at every share, and on SST-2 GAE is the best method without a mask.
#
# **What you see.** Another order. CAM and AttCAT have the highest means, but the tests below cannot tell them from
# Mask-LRP; Mask-LRP, its random masks and GAE lie on one line; rollout and LRP are lowest, near the random order
# (`random` in Table 1 below).
#
# **Why.** The relevance methods share the gradient of attention and differ in little else on this model.
#
# ## Tables 1 and 4
#
# The best of a data set is bold, the best that is not Mask-LRP italic. Two rows are not in the paper: random orders
# (`random`), and gradient times activation at a late layer. Mask-LRP is the default reading; the other two follow
# below.

# %% tags=["table-1"]
for pair in (("SST-2", "MNLI"), ("IMDB", "Yelp")):  # two at a time, which fit a page
    if shown := {f"{stand_in}{name}": deletion[name] for name in pair if name in deletion}:
        display(paper.faithfulness_table(shown, ours=["mask-lrp"]))

# %% [markdown]
# The paper's Table 1, whole, with the deviations of five random masks. Rows have nbsal's names; `alti` is from
# Table 4.

# %%
whole = printed.frame(printed.DELETION, printed.LOSSES).map("{:.3f}".format).replace("nan", "")
for name, deviations in printed.DEVIATIONS.items():
    for measure, deviation in zip(printed.LOSSES, deviations, strict=True):
        whole.loc["random mask", (name, measure)] = f"{whole.loc['random mask', (name, measure)]} ± {deviation:.3f}"
printed.flat(whole)

# %% [markdown]
# Ours, the paper's, and the difference:


# %%
def beside(results, table):
    """Numbers here, the paper's and the difference; one row for each data set and method."""
    parts = {name: printed.beside({name: one}, table).droplevel(0, axis=1) for name, one in results.items()}
    return printed.flat(pandas.concat(parts))


beside(deletion, printed.DELETION).style.format(precision=3, na_rep="")

# %% tags=["table-4"]
without_mnli = {name: results for name, results in deletion.items() if name != "MNLI"}
beside(without_mnli, printed.DELETION).query("ilevel_1 in ['alti', 'mask-lrp']").style.format(precision=3)

# %% [markdown]
# **What the paper saw.** Mask-LRP leads in every column but log-odds on Yelp, where AttCAT does. The random mask is
# second on SST-2 and IMDB, and by AOPC on Yelp. **On MNLI it is not**: there GAE is second (0.144 and -0.421) and the
# random mask (0.142 and -0.415) is third by AOPC and fourth by log-odds, with a deviation between masks of 0.021 in
# log-odds. On QQP, CAM is second by AOPC and the random
# mask by log-odds. AOPC of Mask-LRP and of a random mask differ by 0.003 to 0.008, as much as one to three of the
# paper's deviations. The paper has no tests.
#
# **What you see.** The margins of Mask-LRP, tested on the same texts. `p_holm` is adjusted for the number of
# comparisons of each data set, in the last column.

# %%
OTHERS = ["random mask", "transformer-attribution", "alti", "attcat", "attention-cam", "gradxact l5"]
rivals = {
    f"{stand_in}{name}, {len(panels[name][1])} texts": one.paired("mask-lrp", OTHERS, ["aopc"])
    for name, one in deletion.items()
}
pandas.concat(rivals).droplevel(1).drop(columns=["first", "measure"]).round(4)

# %% [markdown]
# On SST-2, Mask-LRP cannot be told apart from its random masks or from GAE: both margins are below 0.004. It beats
# ALTI, as in the paper's Table 4, by 0.03 with an adjusted p of 0.002. Gradient times activation at layer 5, which
# needs no relevance and no mask, beats it by 0.05 with an adjusted p of 0.006. On 100 other texts of SST-2 the first
# holds again; ALTI is 0.02 behind (adjusted p 0.45) and gradient times activation 0.05 ahead (0.07).
#
# On MNLI, AttCAT and gradient times activation are ahead of Mask-LRP, with adjusted p-values below 0.005; ALTI is ahead
# by 0.04, with one of 0.05. The paper's Table 4 has no MNLI. There, random masks and GAE equal Mask-LRP nearly by
# construction: `demo/nli` has a single selected head (Figure 5).
#
# On sixty short reviews of IMDB, it beats ALTI by 0.04 (adjusted p 0.01), and gradient times activation beats it by
# 0.07 (0.03). The random masks are 0.009 behind it (0.005 in the paper); adjusted for six comparisons, p is
# 0.05. On sixty of Yelp no margin survives the adjustment.
#
# **Why it differs from the paper.** The model is smaller and has other head masks. And except for AttCAT, the paper
# compares with no method that reads the gradient of a hidden layer: its CAM and Grad-CAM read that of attention in the
# last block.
#
# ### Does the mask matter? All three readings
#
# Four masks: the discovered one, random ones of the same size, the discovered one turned inside out, and all heads.
# The default reads a block's map before its own mask, so it can hardly show a difference; the equations as printed
# can.

# %%
some = panels["SST-2"][1][:SOME]
everything = HeadMask.from_array(np.ones(reviews.mask.shape, int))
MASKS = {
    "discovered": [reviews.mask],
    "random": [reviews.mask.matched_random(seed) for seed in range(RUNS)],
    "inverted": [~reviews.mask],
    "all heads": [everything],
}
ablation = {
    reading: evaluate(
        f"{stand_in}{reading}", {name: masked(reviews, masks, reading) for name, masks in MASKS.items()}, some
    )
    for reading in READINGS
}
print(*ablation["mask-lrp"].notes, sep="; ")
shares = {reading: one.mean().query("measure == 'aopc'").set_index("explainer") for reading, one in ablation.items()}
pandas.DataFrame(
    {
        r: [f"{m:.3f} [{lo:.3f}, {hi:.3f}]" for m, lo, hi in f[["mean", "low", "high"]].to_numpy()]
        for r, f in shares.items()
    },
    index=list(MASKS),
)

# %%
masks = {reading: one.paired("discovered", measures=["aopc"]) for reading, one in ablation.items()}
pandas.concat(masks).droplevel(1).drop(columns=["first", "measure"]).round(4)

# %% [markdown]
# **What the paper saw.** Its mask beats random masks by 0.003 to 0.008 in AOPC, which it takes as evidence that the
# discovered heads are the right ones.
#
# **What you see.** In the default and in the published reading, the four masks cannot be told apart: all margins are
# below 0.01. That does not show that the heads are wrong, since these readings can hardly show anything. In the
# equations as printed the mask does act, and the discovered heads do *worse*: 0.17 below all heads and below the mask
# turned inside out, and 0.07 below random masks of the same size, all with adjusted p-values below 0.001.
#
# **Why.** As printed, a block without a selected head has no map, and its evidence is lost. The discovered mask
# selects no head in the upper blocks (Figure 5), which know most about the class. A mask that leaves out more loses
# more. On 100 other texts the same three margins are 0.14, 0.14 and 0.11. On this model nothing shows that syntactic
# and positional heads carry the explanation.
#
# ## Table 2: answers
#
# A span model reads a question and a context, and points at the answer's first and last token. Mask-LRP explains both
# ends and adds the scores. What the paper calls Precision@20 divides by the number of tokens of the *answer*, and is
# therefore a recall; nbsal reports it under that name, and the precision beside it.
#
# `demo/answers` is a weak model: on 120 questions that it has not seen, its exact match is 0.317 and its F1 0.406.
# Some questions of the table were in its training. An explanation can only point at the gold answer where the model
# does, so the levels here say as much about the model as about the method.

# %% tags=["table-2"]
K = 20 if DATA else 10  # a recall at 20 is easy in the samples, whose contexts have little more than 20 tokens
questions = nbsal.data.load("squad" if DATA else "samples/answers").sample(frac=1, random_state=0)
asked = nbsal.data.texts(questions)
fits = [i for i, row in enumerate(answers.encode(asked)) if not row.dropped][:SOME]
asked, gold = [asked[i] for i in fits], [questions["answers"].tolist()[i] for i in fits]
pointing = {name: nbsal.Explainer(answers, name) for name in printed.ANSWERS["SQuAD v1"]}
pointing["random"] = [nbsal.Explainer(answers, "random", seed=seed) for seed in range(RUNS)]
spans = Cache()


def pointed(name, measure, explainers, **settings):
    """How well explanations point at the answers; results that were stored before are loaded."""
    path = RESULTS / f"{stand_in}SQuAD v1-{len(asked)}-{name}.nbsal"
    if not path.exists():
        measure(explainers, asked, gold, K, cache=spans, progress=False, **settings).save(path)
    return Results.load(path)


recall = pointed("recall", nbsal.evaluation.answer_recall_at, pointing)
precision = pointed("precision", nbsal.evaluation.precision_at, pointing)
name = f"{stand_in}SQuAD v1, {answers.name}, k = {K}"
print(f"{len(asked)} questions that fit the model's length")
paper.answer_table({f"recall: {name}": recall, f"precision: {name}": precision})

# %%
percent = printed.frame(printed.ANSWERS, printed.ANSWER_MODELS)
here = 100 * recall.mean().set_index("explainer")["mean"].reindex(percent.index)
percent["SQuAD v1", "here"] = here
percent["SQuAD v1", "here - BERT base"] = here - percent["SQuAD v1", "BERT base"]
print("Table 2 of the paper in percent, and ours")
printed.flat(percent.sort_index(axis=1, level=0, sort_remaining=False)).round(2)

# %% [markdown]
# Rollout finds eleven times as much here as in the paper. Three things differ besides the model, and the next cell
# takes them over one by one. nbsal's rollout and raw attention explain a span by the rows of its two ends; the
# program takes the mean over *all* rows (`generate_rollout` and `generate_attn_last_layer` in its
# `ExplanationGenerator.py`). nbsal ranks the tokens of the context; the program ranks those of the question and the
# special tokens too. And it divides the mean number of tokens found by the mean length of an answer
# (`evaluate_explanability.py`).

# %%
as_published = {name: nbsal.Explainer(answers, f"{name}@published") for name in printed.ANSWERS["SQuAD v1"]}
steps = {
    "here": recall,
    "rows as published": pointed("rows", nbsal.evaluation.answer_recall_at, as_published),
    "ranked and divided as published too": pointed(
        "ranking", nbsal.evaluation.answer_recall_at, as_published, variant="published"
    ),
}
step_by_step = pandas.DataFrame({name: 100 * one.mean().set_index("explainer")["mean"] for name, one in steps.items()})
step_by_step["the paper, BERT base"] = printed.frame(printed.ANSWERS, printed.ANSWER_MODELS)["SQuAD v1", "BERT base"]
step_by_step.reindex(here.index).round(1)

# %%
answered = recall.paired("mask-lrp")
answered.drop(columns=["first", "measure"]).round(4)

# %% [markdown]
# **What the paper saw.** Mask-LRP finds most of the answer's tokens: 52 to 67 % on SQuAD v1, 27 to 56 % on SQuAD v2.
# But its program drops the head mask for span models, so these rows are GAE's, and its RoBERTa runs with wrong
# positions.
#
# **What you see.** Rollout's gap is one of rows: the mean over all rows brings it from 52 to 13 %, below the 17 %
# that twenty random tokens find, and the program's ranking and ratio to 7 (paper: 5). With all three, raw attention
# has 40, AttCAT 24 and Mask-LRP 48 (paper: 36, 31 and 53), on a model a fifth as large. So the row of rollout says
# how the program reads a span, not what rollout knows of the answer. As nbsal reads spans, Mask-LRP finds more than
# rollout and AttCAT, by 0.10 and 0.30 with adjusted p-values below 0.001; from raw attention, 0.03 behind, it cannot
# be told (0.38). All four find more than random tokens.
#
# ## Figure 4: a corrupted mask
#
# A growing share of the heads that the mask leaves out is added to it, chosen at random. The paper says that with all
# of them the method "degenerates to GAE".
#
# Whether it does depends on what is added up. A mask that says *why* a head was selected has two parts, syntactic and
# positional, and each is rescaled on its own; a head in both parts counts twice. Then all heads are *not* GAE. The
# masks of this figure are plain sets of heads, `HeadMask.from_array`. For these the last point *is* transformer
# attribution, up to rounding, which the next cell checks. The dotted
# line `mask-lrp` is the mask with its parts.


# %% tags=["figure-4"]
def added(percent, seed):
    """The mask with that share of the other heads added, as plain heads without their reasons."""
    return HeadMask.from_array(reviews.mask.corrupted(percent / 100, seed).selected)


rates = {
    f"{percent} %": masked(reviews, [added(percent, seed) for seed in range(1 if percent in (0, 100) else RUNS)])
    for percent in PERCENT
}
levels = {name: nbsal.Explainer(reviews, name) for name in ("mask-lrp", "transformer-attribution")}
corrupted = evaluate(f"{stand_in}corruption", rates | levels, some)
print(*corrupted.notes, sep="; ")
ends = corrupted.mean().query("measure == 'aopc'").set_index("explainer")["mean"]
print(f"all heads minus transformer attribution: {ends['100 %'] - ends['transformer-attribution']:.0e}")
paper.corruption_curves(corrupted)

# %%
added_heads = corrupted.paired("0 %", list(rates)[1:], ["aopc"])
added_heads.drop(columns=["first", "measure"]).round(4)

# %% [markdown]
# **What the paper saw.** AOPC falls with the share of added heads, down to GAE.
#
# **What you see.** No trend. The whole range of the curve is 0.004 in AOPC (mind the axis), and none of the ten
# margins is significant: the smallest adjusted p is 0.9. More texts could show a trend of a thousandth, but not one
# that matters beside the differences between methods in Table 1.
#
# **Why.** The default reading hardly depends on the mask, as the ablation shows.
#
# ## Figure 5: the heads
#
# The masks of the three embedded models were computed on the development part of the English Web Treebank. The
# paper parses each data set by machine, and has one mask for each.

# %% tags=["figure-5", "equations-7-8"]
print(*(f"{one.name}: {one.mask!r}" for one in (reviews, nli, answers)), sep="\n")
paper.head_maps({one.name: one.mask for one in (reviews, nli, answers)})

# %% [markdown]
# **What the paper saw.** Positional heads in the lower blocks, syntactic ones above them. Models of long texts have
# few of either.
#
# **What you see.** The same order in `demo/reviews` and `demo/answers`, though both kinds meet in the middle;
# `demo/nli` has a positional head only. The three models were fine-tuned from one body, and differ in how many heads
# still pass the thresholds: fine-tuning can undo such heads. Where a block has no selected head, the
# default lets everything pass, so for a model with few heads Mask-LRP is nearly transformer attribution.
#
# In a running notebook you can switch heads on and off, and watch the scores:

# %%
nbsal.widgets.Heads(explain, text=sentence, study=study, kind="both").wait()

# %% [markdown]
# ## Table 3: one kind of head at a time

# %% tags=["table-3"]
kinds = {
    "mask-lrp": nbsal.Explainer(reviews, "mask-lrp"),
    "without positional heads": masked(
        reviews, [HeadMask(np.zeros_like(reviews.mask.positional), reviews.mask.relations)]
    ),
    "without syntactic heads": masked(reviews, [HeadMask(reviews.mask.positional)]),
}
halves = evaluate(f"{stand_in}parts", kinds, some)
print(*halves.notes, sep="; ")
beside({"SST-2": halves}, printed.MASK_PARTS).round(3)

# %% [markdown]
# The paper's Table 3, whole:

# %%
printed.flat(printed.frame(printed.MASK_PARTS, printed.LOSSES))

# %%
kind_margins = halves.paired("mask-lrp", measures=["aopc"])
kind_margins.drop(columns=["first", "measure"]).round(4)

# %% [markdown]
# **What the paper saw.** Leaving out one kind of head changes AOPC by 0.001 at most on SST-2, by 0.002 on QQP.
#
# **What you see.** Hardly any change here either.
#
# **Why.** The paper's reading: one kind of head alone does not change the ranking, and the other only adds detail.
# The ablation above suggests another reason: the default reading hardly depends on the mask.
#
# ## Figures 6 to 13: where methods differ
#
# The first line shows Mask-LRP's own scores. The others show where it gives more (orange; green in the paper) or less
# (blue and underlined; red in the paper) than a baseline. Scores of a text are shares of their sum, so that methods
# can be compared. The sentence of Figure 6 was written for nbsal, after the paper's.

# %% tags=["figure-6", "gallery-differences"]
COMPARED = ("rollout", "raw-attention", "attcat", "lrp", "transformer-attribution")


def differences(subject, text):
    scored = {name: nbsal.Explainer(subject, name)(text) for name in ("mask-lrp", *COMPARED)}
    return paper.attribution_differences(scored.pop("mask-lrp"), scored)


differences(reviews, sentence)  # Figure 6: positive

# %% [markdown]
# **What the paper saw.** Attention methods stress *affecting*; Mask-LRP moves weight to *charming*, and, unlike LRP
# and GAE, to *journey*, which hangs on it.
#
# **What you see.** *warm* carries most of the score, and the last line, which is what the mask alone changes, is
# nearly empty. A single sentence shows how the figure reads, not which method is right.
#
# Figures 7 to 9 are pairs. Each shows the first pair of its class that the model classifies correctly.

# %% tags=["figure-7"]
pairs = nbsal.data.load("mnli" if DATA else "samples/pairs").head(200)
predict = nbsal.Explainer(nli, "raw-attention")


def correct(label):
    rows = nbsal.data.texts(pairs[pairs["label"] == label])
    return next(text for text in rows if predict(text).prediction == nli.labels[label])


differences(nli, correct(0))  # Figure 7: entailment

# %% tags=["figure-8"]
differences(nli, correct(1))  # Figure 8: neutral

# %% tags=["figure-9"]
differences(nli, correct(2))  # Figure 9: contradiction

# %% [markdown]
# Figures 10 to 13 are long reviews: the longest of each class that fits a page and is classified correctly. Without
# `NBSAL_DATA`, bundled reviews stand in, another one in each figure.


# %% tags=["figure-10"]
classify = nbsal.Explainer(reviews, "raw-attention")


def long_review(name, label, place):
    """The longest correctly classified review below 600 characters; of the samples, another one for each place."""
    frame = nbsal.data.load(name if DATA else "samples/reviews")
    texts = frame[(frame["label"] == label) & (frame["text"].str.len() < 600)]["text"].head(200)
    longest_first = sorted(texts, key=len, reverse=True)
    classified = (text for text in longest_first if classify(text).prediction == reviews.labels[label])
    return next(islice(classified, 0 if DATA else place, None))


differences(reviews, long_review("imdb", 0, 0))  # Figure 10: negative, IMDB

# %% tags=["figure-11"]
differences(reviews, long_review("imdb", 1, 0))  # Figure 11: positive, IMDB

# %% tags=["figure-12"]
differences(reviews, long_review("yelp_polarity", 0, 1))  # Figure 12: negative, Yelp

# %% tags=["figure-13"]
differences(reviews, long_review("yelp_polarity", 1, 1))  # Figure 13: positive, Yelp

# %% [markdown]
# **What you see.** In each figure the faintest line is the difference to `transformer-attribution` (GAE).
#
# **Why.** GAE is Mask-LRP without a mask.
#
# ## Tables 5 and 6: data and checkpoints

# %% tags=["table-5"]
available = ("sst2", "imdb", "yelp_polarity", "mnli", "squad") if DATA else ()
checkpoints.dataset_table({name: len(nbsal.data.load(name)) for name in available})

# %% tags=["table-6"]
used = {"sst2": [reviews.name], "mnli": [nli.name], "squad": [answers.name]}
used |= {"imdb": [reviews.name], "yelp_polarity": [reviews.name]} if DATA else {}
checkpoints.checkpoint_table(used)

# %% [markdown]
# The paper uses one GPT-2, trained on SQuAD v1, for both versions of SQuAD.
#
# ## The paper's claims, and whether they hold here
#
# Every number in this table is computed from the results above, with the default reading of Mask-LRP. Margins are
# positive where the first method is better; *p* is adjusted for the number of comparisons on the same texts. A verdict
# needs a *p* below 0.05.

# %% tags=["claims"]
IN_PAPER = [*BASELINES, "random mask", "mask-lrp"]


def against(name):
    """The margins over one method, by data set."""
    return {data: frame[frame["second"] == name] for data, frame in rivals.items() if name in set(frame["second"])}


def leaders(measure):
    """Whether Mask-LRP is the best of the paper's methods on every data set, and which is."""
    best = {name: results.best(measure, IN_PAPER) for name, results in deletion.items()}
    verdict = claims.YES if set(best.values()) == {"mask-lrp"} else claims.NO
    return verdict, "best: " + ", ".join(f"{name} {method}" for name, method in best.items())


def mean_block(heads):
    """The mean number of the blocks that selected heads lie in, counted from 0."""
    return np.nonzero(heads)[0].mean()


with_both = [one for one in (reviews, nli, answers) if one.mask.positional.any() and one.mask.syntactic.any()]
places = {one.name: (mean_block(one.mask.positional), mean_block(one.mask.syntactic)) for one in with_both}
attention = {
    f"{stand_in}{name}": one.paired("mask-lrp", ["raw-attention", "rollout", "lrp", "partial-lrp"], ["aopc"])
    for name, one in deletion.items()
}
without_mnli = {data: frame for data, frame in against("alti").items() if "MNLI" not in data}
largest = kind_margins["margin"].abs().max()
rows = [
    ("Mask-LRP has the highest AOPC on every data set (Table 1)", *leaders("aopc")),
    ("It has the lowest log-odds, but for Yelp (Table 1)", *leaders("log-odds")),
    ("It beats raw attention, rollout, LRP and partial LRP (Table 1; tested here by AOPC)", *claims.outcome(attention)),
    ("It beats GAE, which uses all heads (Table 1)", *claims.outcome(against("transformer-attribution"))),
    ("It beats ALTI (Table 4, without MNLI)", *claims.outcome(without_mnli)),
    ("It beats random masks of the same size (Table 1, 5.4)", *claims.outcome(against("random mask"))),
    ("The discovered heads are the right ones (5.4; tested here in three readings)", *claims.outcome(masks)),
    (
        "Adding other heads makes it worse (Figure 4)",
        *claims.outcome({"0 % against more": added_heads}),
    ),
    (
        "One kind of head alone is nearly as good (Table 3)",
        claims.YES if largest < 0.01 else claims.NO,
        f"AOPC changes by {largest:.4f} at most",
    ),
    (
        "Positional heads lie lower than syntactic ones (Figure 5)",
        claims.YES if all(low < high for low, high in places.values()) else claims.NO,
        "mean block: " + "; ".join(f"{name} {low:.1f} and {high:.1f}" for name, (low, high) in places.items()),
    ),
    (
        "It points at answers better than rollout, raw attention and AttCAT (Table 2)",
        *claims.outcome({f"{stand_in}SQuAD v1": answered[answered["second"] != "random"]}),
    ),
]
Markdown(claims.table(rows))

# %% [markdown]
# **What it comes to.** Mask-LRP is a good relevance method because transformer attribution is one. On these models
# nothing shows that its head mask adds anything.
#
# ## Exercises
#
# **1.** Why can the default reading show no difference between two masks that differ in the lowest block only?
#
# <details><summary>Answer</summary>
#
# The map of a block is read before its own mask, so a mask acts on the blocks below, and there is none below the lowest
# block. Try it: change one head of block 0 with `HeadMask.from_array` and compare the scores.
#
# </details>
#
# **2.** Section 5.4 concludes from a random mask being ahead of GAE that other methods suffer from irrelevant heads.
# Which column of Table 1 disagrees, and what other explanation is there?
#
# <details><summary>Answer</summary>
#
# MNLI, where GAE, which has no mask, is ahead of the random mask in both measures. If *any* mask helped by removing
# irrelevant information, a random one would have to remove relevant information as well. Another explanation is that
# the mask hardly acts, and that the differences come from how the program reads the maps. (In the program, relevance
# of a masked run is twice that of an unmasked one.)
#
# </details>
#
# **3.** Two parts of a block carry relevance $+2$ and $-1$. What do the paper's rescaling and Chefer's make of a
# block total of 1?
#
# <details><summary>Answer</summary>
#
# Paper: $|\sum R| = 1$, so the parts become $2 \cdot \frac{2}{1} \cdot \frac{1}{2} = 2$ and $-1 \cdot \frac{1}{1}
# \cdot \frac{1}{-1} = 1$, which sum to 3. Chefer: $|2| + |-1| = 3$, so they become $\frac 23$ and $\frac 13$, which
# sum to 1.
#
# </details>
#
# **4.** How many texts would you need to show the paper's margin over a random mask on SST-2, 0.006 in AOPC, if the
# standard deviation of the difference between texts is 0.1?
#
# <details><summary>Answer</summary>
#
# The 95 % interval has a half-width of about $1.96 \cdot 0.1 / \sqrt n$. It is below 0.006 from
# $n \approx (1.96 \cdot 0.1 / 0.006)^2 \approx 1070$, more than the 872 texts of the validation set.
#
# </details>
#
# **What is the paper's, and what is ours.** Columns headed *paper*, Table 1 whole and the percentages of Table 2's
# models are copied from the paper. The rest was computed above, on the models and texts that the second cell prints.
# Even the paper's own checkpoints would give other numbers: its program explains the gold label where the text says
# the prediction, hides `[SEP]` for the explanation but not for the deletion, drops the second segment of pairs,
# leaves out texts below twenty tokens, never passes the mask to span models, and gives every worker process the
# same weight. `variant="published"` and the `@published` methods repeat all of that.
