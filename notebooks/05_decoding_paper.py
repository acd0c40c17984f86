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
# # Decoding Layer Saliency, figure by figure
#
# Every figure and table of *Decoding Layer Saliency in Language Transformers* (Hou and Castanon, ICML 2023), in the
# order of the paper, made by the functions of `nbsal.figures.decoding_saliency`. Notebook 02 explains the method;
# this one is for reviewers and for people who want to cite it.
#
# **Read this first.** The paper fine-tunes RoBERTa base (twelve blocks) on SST-2 and AG News and evaluates on their
# whole validation and test sets. By default this notebook runs offline in under a minute or so: two small six-block
# models that come with nbsal, and a few dozen texts written for it. The *shapes* can be compared with the paper; the
# *levels* cannot, and intervals over so few texts are wide. To come closer, in this order:
#
# 1. `NBSAL_DATA=folder` takes the real SST-2 and AG News;
# 2. `SIZE = None` (or `NBSAL_SIZE=0` in the environment) takes all of their texts;
# 3. a RoBERTa of your own: `nbsal.load("your/roberta-sst2", lm="roberta-base")` in the third cell.
#
# `python -m nbsal.figures --paper decoding --out folder` does all of that from a shell, resumably, with `--full`,
# `--data` and `--model`.

# %%
# %matplotlib inline
import os
import tempfile
from pathlib import Path

import pandas

import nbsal
from nbsal.evaluation import Cache
from nbsal.evaluation.cache import explain_texts
from nbsal.figures import decoding_saliency as paper
from nbsal.figures import pages

DATA = os.environ.get("NBSAL_DATA")  # a folder of benchmark tables; None: the texts that come along
# Texts for SST-2, and half as many for AG News, whose rivals cost more, but four, which have two classes; 0: all
SIZE = int(os.environ.get("NBSAL_SIZE", 20)) or None
ORDERS = 3 if SIZE else 20  # orders by chance behind the row "random"; 20 in the paper
SAMPLES = 2 if SIZE else 25  # permutations behind Shapley values; 25 in the paper
TOP = 50 if DATA else 15  # tokens a class in clouds and shared tokens; 50 in the paper
TENTHS = [step / 10 for step in range(11)]
pandas.set_option("display.precision", 3)

# %%
reviews, news = nbsal.load("demo/reviews"), nbsal.load("demo/news")
caches = {reviews: Cache(), news: Cache()}  # what was explained once is not explained again


def rows(table, sample, size):
    """Texts and labels of a benchmark, or of the samples that stand in for it."""
    frame = nbsal.data.load(table if DATA else f"samples/{sample}")
    frame = frame.sample(min(size or len(frame), len(frame)), random_state=0)
    return nbsal.data.texts(frame), frame["label"].tolist()


texts = {reviews: rows("sst2", "reviews", SIZE), news: rows("ag_news", "news", SIZE and max(SIZE // 2, 4))}
names = {reviews: "SST-2" if DATA else "samples for SST-2", news: "AG News" if DATA else "samples for AG News"}
for subject, (some, _) in texts.items():
    print(f"{names[subject]}: {subject.name} on {len(some)} texts")

# %% [markdown]
# ## Explainers
#
# Ours are decoded Grad-CAM and decoded Simple at every layer. The rivals run as the paper's packages ran them:
# AllenNLP Interpret on sentiment, ThermoStat on topics. The suffix names the program, defects included. One row is
# not in the paper: the same layer **undecoded**, each position scoring the token it stands at.

# %%
layers = range(reviews.depth + 1)


def ours(subject):
    cam = {f"decoded Grad-CAM l{k}": nbsal.Explainer(subject, "decoded-gradcam", layer=k) for k in layers}
    simple = {f"decoded Simple l{k}": nbsal.Explainer(subject, "decoded-simple", layer=k) for k in (3, 4, 5)}
    return cam | simple | {"undecoded Grad-CAM l5": nbsal.Explainer(subject, "gradcam", layer=5)}


ALLEN = ("simple@allennlp", "smooth@allennlp", "integrated@allennlp")
THERMOSTAT = (
    "occlusion@thermostat",
    "integrated@thermostat",
    "gradient-shap@thermostat",
    "lime@thermostat",
    "gradxact@thermostat",
    "deeplift-shap@thermostat",
)
explainers = {
    reviews: ours(reviews) | {name: nbsal.Explainer(reviews, name) for name in ALLEN},
    news: ours(news)
    | {"shapley@thermostat": nbsal.Explainer(news, "shapley@thermostat", samples=SAMPLES)}
    | {name: nbsal.Explainer(news, name) for name in THERMOSTAT}
    | {"Simple l0": nbsal.Explainer(news, "simple", layer=0)},
}
for subject in explainers:  # layer 0 needs no decoding: it is the vanilla Grad-CAM of the paper
    explainers[subject]["Grad-CAM l0"] = nbsal.Explainer(subject, "gradcam", layer=0)
games = {
    subject: nbsal.evaluation.games(
        members,
        *texts[subject],
        fractions=TENTHS,
        random=ORDERS,
        cache=caches[subject],
        progress=False,
    )
    for subject, members in explainers.items()
}
BEST = [f"decoded Grad-CAM l{k}" for k in (2, 3, 4, 5)]

# %% [markdown]
# ## Figure 1: the geometry
#
# The paper sketches it. Here the input is really *big dog*, the sphere's third axis is all other tokens together, and
# each point is what the pretrained head reads at that layer of the fine-tuned model.

# %%
paper.toy_geometry(paper.decoded_path(reviews, "big dog"))

# %% [markdown]
# ## Figures 2 and 3, Table 1: the games
#
# Revealing is better when high, Hiding when low. Chance is grey, with the deviation between its orders; where few
# lines are drawn, their bands are 95 % intervals over texts. The tables have all intervals.

# %% tags=["gallery-games"]
paper.game_curves(games[reviews], [*BEST, "Grad-CAM l0", *ALLEN, "random"])

# %%
paper.game_curves(
    games[news], [*BEST[2:], "Grad-CAM l0", "shapley@thermostat", "occlusion@thermostat", "lime@thermostat", "random"]
)

# %%
rival = ["undecoded Grad-CAM l5", "Grad-CAM l0"]
paper.area_table({names[reviews]: games[reviews]}, [*BEST, rival[0]], explainers=[*BEST, *rival, *ALLEN, "random"])

# %%
paper.area_table(
    {names[news]: games[news]},
    [*BEST, rival[0]],
    explainers=[*BEST, *rival, "shapley@thermostat", *THERMOSTAT, "random"],
)

# %% [markdown]
# The paper's own Table 1, for comparison. Its layers 5 to 9 of twelve correspond to our layers 2 to 5 of six.

# %%
SST2 = {
    "Grad-CAM l0": (0.797, 0.713),
    "decoded Grad-CAM l5": (0.832, 0.640),
    "decoded Grad-CAM l6": (0.854, 0.617),
    "decoded Grad-CAM l7": (0.867, 0.609),
    "decoded Grad-CAM l8": (0.836, 0.660),
    "Simple": (0.799, 0.756),
    "Smooth": (0.795, 0.762),
    "Integrated": (0.804, 0.756),
    "Random": (0.748, 0.770),
}
AG_NEWS = {
    "Grad-CAM l0": (0.853, 0.804),
    "decoded Grad-CAM l6": (0.895, 0.739),
    "decoded Grad-CAM l8": (0.867, 0.782),
    "decoded Grad-CAM l9": (0.879, 0.774),
    "Shapley": (0.905, 0.567),
    "Occlusion": (0.894, 0.731),
    "Integrated": (0.897, 0.661),
    "Gradient Shapley": (0.860, 0.784),
    "LIME": (0.851, 0.792),
    "Grad x Act": (0.851, 0.794),
    "DeepLift Shapley": (0.823, 0.842),
    "Random": (0.829, 0.841),
}
printed = {"SST-2 (paper)": SST2, "AG News (paper)": AG_NEWS}
tables = {name: pandas.DataFrame(table, ["revealing", "hiding"]).T for name, table in printed.items()}
pandas.concat(tables, axis=1).astype(object).fillna("")

# %% [markdown]
# What to look for, and what to be careful about:
#
# * On sentiment a middle-to-late layer should beat layer 0 and the three AllenNLP methods in the Hiding game, as in
#   the paper. The margins below are tested on the same texts.
# * The **undecoded** layer does as well as the decoded one. The paper's gain comes from the layer; decoding gives the
#   scores a meaning in words, not a better area.
# * On topics the paper's own method *loses* to Shapley, which is built to find tokens whose absence changes the
#   prediction, at the price of hundreds of forwards a text. So does ours. On these few texts it is no better than
#   plain Grad-CAM at layer 0 either, and several ThermoStat methods hide better.

# %%
against = {reviews: ["Grad-CAM l0", *rival[:1], *ALLEN], news: ["Grad-CAM l0", *rival[:1], "shapley@thermostat"]}
pandas.concat(
    {names[subject]: games[subject].paired("decoded Grad-CAM l5", others) for subject, others in against.items()}
).droplevel(1).drop(columns="first").round(3)

# %% [markdown]
# ## Figure 4: tokens that speak for several classes
#
# A token that is important for a class should not be important for another. The figure counts, among the $k$ most
# important tokens of each class, those that stand in more than one list. Scores are credited to the predicted class
# and weighted by how rare the token is in everyday text. The paper's rarity comes from 50,000 Wikipedia articles,
# ours from a table computed over WikiText.

# %%
CLOUDED = {
    reviews: ("decoded Grad-CAM l5", "undecoded Grad-CAM l5", *ALLEN),
    news: ("decoded Grad-CAM l5", "undecoded Grad-CAM l5", *THERMOSTAT[:2], "shapley@thermostat"),
}
COUNTS = list(range(10, 101, 10)) if DATA else [5, 10, 15, 20]
overlaps = {
    names[subject]: nbsal.evaluation.overlap(
        {name: explainers[subject][name] for name in CLOUDED[subject]},
        texts[subject][0],
        COUNTS,
        cache=caches[subject],
        progress=False,
    )
    for subject in texts
}
paper.overlap_shares(overlaps)

# %% [markdown]
# With so few texts a list soon runs out of tokens that matter, and short lists overlap by chance; the intervals show
# it.
#
# ## Figures 5 and 6: every layer

# %%
paper.layer_curves(games[reviews])

# %%
paper.layer_curves(games[news])

# %% [markdown]
# ## Figures 7 and 8, Table 2: another layer method
#
# Algorithm 1 takes any score that lives at a layer. Here it decodes *Simple*, the size of the gradient.

# %%
simple = {
    reviews: ["simple@allennlp", *(f"decoded Simple l{k}" for k in (3, 4, 5)), "random"],
    news: ["Simple l0", *(f"decoded Simple l{k}" for k in (3, 4, 5)), "random"],
}
paper.game_curves(games[reviews], simple[reviews])

# %%
paper.game_curves(games[news], simple[news])

# %%
paper.area_table({names[s]: games[s] for s in texts}, explainers=[*simple[reviews][:-1], "Simple l0"])

# %%
SIMPLE = {
    "Simple": (0.799, 0.756, 0.883, 0.765),
    "decoded Simple l5": (0.816, 0.687, 0.866, 0.762),
    "decoded Simple l6": (0.828, 0.694, 0.891, 0.716),
    "decoded Simple l7": (0.835, 0.689, 0.847, 0.774),
}
columns = pandas.MultiIndex.from_product([["SST-2 (paper)", "AG News (paper)"], ["revealing", "hiding"]])
pandas.DataFrame.from_dict(SIMPLE, orient="index", columns=columns)

# %% [markdown]
# ## Figures 9 to 12, Tables 3 to 9: what each class is made of
#
# The same scores as clouds: the most important tokens of every predicted class, larger where they weigh more.


# %%
def clouds(subject, chosen):
    """Class tokens by explainer, of the texts that were explained already."""
    members = {name: explainers[subject][name] for name in chosen}
    said = explain_texts(members, texts[subject][0], 32, caches[subject], False, None)
    return {name: nbsal.clouds.rank(runs[0]) for name, runs in said.items()}


sentiment, topics = (clouds(subject, CLOUDED[subject]) for subject in texts)
paper.word_clouds(sentiment, TOP)  # Figure 9

# %%
paper.word_clouds(clouds(reviews, [f"decoded Simple l{k}" for k in (3, 4, 5)]), TOP)  # Figure 10

# %% tags=["gallery-clouds"]
paper.word_clouds({name: topics[name] for name in list(topics)[::2]}, TOP)  # Figure 11

# %%
paper.overlap_counts({names[reviews]: sentiment, names[news]: topics}, COUNTS)  # Figure 12

# %% [markdown]
# Tables 3 to 8 list the shared tokens of every pair of topics, Table 9 those of both sentiments. With few texts a
# class may be empty, and the table says so.

# %%
paper.shared_tokens(topics, "World", "Sports", TOP)  # Table 3

# %%
paper.shared_tokens(topics, "World", "Business", TOP)  # Table 4

# %%
paper.shared_tokens(topics, "Sports", "Business", TOP)  # Table 5

# %%
paper.shared_tokens(topics, "World", "Sci/Tech", TOP)  # Table 6

# %%
paper.shared_tokens(topics, "Sports", "Sci/Tech", TOP)  # Table 7

# %%
paper.shared_tokens(topics, "Business", "Sci/Tech", TOP)  # Table 8

# %%
paper.shared_tokens(sentiment, "negative", "positive", TOP)  # Table 9

# %% [markdown]
# In the paper's Tables 3 to 9 its own method shares no token or a handful, its rivals many. Its lists hold pieces of
# capitalised words, *ASHINGTON* and *ONDON*, because RoBERTa keeps capitals; our model reads lower case, so datelines
# look different here.
#
# ## Section A.5: highlighted examples

# %%
examples = {
    reviews: "A bleak, desperate little film that somehow becomes a joy to watch.",
    news: "Shares in the chip maker fell after it said that its new processor would be late.",
}
shown = {reviews: ("decoded Grad-CAM l5", *ALLEN), news: ("decoded Grad-CAM l5", *THERMOSTAT[:2])}
paper.highlights({name: explainers[reviews][name](examples[reviews]) for name in shown[reviews]})

# %%
paper.highlights({name: explainers[news][name](examples[news]) for name in shown[news]})

# %% [markdown]
# ## The supplement: every text
#
# The authors attach a file with every validation text highlighted by every method. `pages.supplement` writes it as
# one HTML page that needs no scripts. The page holds all texts; the first two are shown here.

# %%
members = {name: explainers[reviews][name] for name in shown[reviews]}
said = {n: runs[0] for n, runs in explain_texts(members, texts[reviews][0], 32, caches[reviews], False, None).items()}
gold = [reviews.labels[label] for label in texts[reviews][1]]
file = Path(tempfile.mkdtemp()) / "supplement.html"
pages.supplement(said, gold, f"{names[reviews]}, highlighted").save(file)
print(f"{file.name}: {len(gold)} texts, {file.stat().st_size / 1000:.0f} kB")
pages.supplement({name: found[:2] for name, found in said.items()}, gold[:2], "The first two texts")

# %% [markdown]
# **What is the paper's, and what is ours.** Numbers headed *(paper)* are copied from the paper. All others were
# computed above, on the models and texts that the second cell prints. They differ because the models differ (six
# blocks and subword pieces of BERT against twelve and RoBERTa's), because the texts are other and few, because
# AllenNLP's numbers come from RoBERTa *large* in the paper, and because chance is averaged over fewer orders.
