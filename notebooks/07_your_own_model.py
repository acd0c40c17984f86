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
# # Your own model
#
# nbsal explains stock Hugging Face models as they are. Load yours, ask about a text, and let nbsal check the answer by
# hiding words.
#
# **You will be able to** load a model of yours, explain classes, pairs, spans and next tokens, choose a method, and
# write one. Twenty minutes; you should have used transformers before.
#
# ## Load it and ask
#
# ```python
# nbsal.load("path/to/my-classifier")                                       # a folder that save_pretrained wrote
# nbsal.load("textattack/bert-base-uncased-SST-2", lm="bert-base-uncased")  # a hub id
# nbsal.load(model, tokenizer=tokenizer)                                    # objects in memory
# ```
#
# nbsal reads safetensors only and runs no code from the hub. To work without a network, this notebook trains its own
# model and saves it in the folder `flagger`: a BERT of two blocks that predicts *flagged* for a text with the word
# *indigo* and *fine* for any other. So we know the reason for each decision.

# %%
# %matplotlib inline
import os
from dataclasses import dataclass

import pandas
import torch
import transformers

import nbsal
from nbsal.methods.base import LayerMethod, register
from nbsal.methods.cost import Cost
from nbsal.samples.trained import texts_with, word_classifier

DATA = os.environ.get("NBSAL_DATA")  # a folder of benchmark tables; None: the bundled texts
SIZE = int(os.environ.get("NBSAL_SIZE", 40)) or None  # texts of each comparison; 0: all
STEPS = 20 if SIZE and SIZE < 10 else 250  # of training; few for a trial run

mine = nbsal.load(word_classifier("flagger", steps=STEPS))
print(type(mine.model).__name__, mine.task, mine.labels, f"{mine.depth} blocks")

# %% [markdown]
# An `Explainer` is a model with a method. If you name no method, it takes the default: AttnLRP (`attn-lrp`), which
# propagates relevance from the output back to the tokens. `check=True` hides the words with the highest scores and
# reports what the model predicts without them.

# %%
text = "A warm and funny film with an indigo sky, and far too long."
nbsal.Explainer(mine)(text, check=True)

# %% [markdown]
# The first line is the result: without *indigo*, the model decides otherwise. Hiding one of nine random words instead
# changes nothing. In a running notebook, `nbsal.why(mine, text)` opens a view of the same explanation, in which you can
# type another text and choose another method or class.
#
# ## Which methods find the planted reason?
#
# One text is an anecdote. We train the model with five seeds and count, of 40 texts with *indigo*, those in which it
# has the highest score of all words. Methods whose names begin with `decoded-` read hidden layers through an LM head. A
# classifier has none, and the error says what to pass:

# %%
try:
    nbsal.Explainer(mine, "decoded-gradcam")
except nbsal.errors.NbsalError as error:
    print(error)

# %%
methods = "attn-lrp integrated occlusion rollout lrp simple raw-attention transformer-attribution gae".split()
methods += ["gradxact", "decoded-gradcam", "gradcam", "random"]
flagged = texts_with("indigo", min(SIZE or 40, 40))


def hits(explanations):
    return sum(explanation.top(1)["token"].item() == "indigo" for explanation in explanations)


seeds = {0: nbsal.load("flagger", lm="tied")}
for seed in range(1, 5):
    seeds[seed] = nbsal.load(word_classifier(f"flagger/{seed}", seed=seed, steps=STEPS), lm="tied")
counts = {
    f"seed {seed}": {name: hits(nbsal.Explainer(subject, name).map(flagged, progress=False)) for name in methods}
    for seed, subject in seeds.items()
}
predictions = [
    [one.prediction for one in nbsal.Explainer(each).map(flagged, progress=False)] for each in seeds.values()
]
empty = sum(not one.scores.any() for one in nbsal.Explainer(mine, "gradcam").map(flagged, progress=False))
print("predicted as flagged by each model:", [each.count("flagged") for each in predictions], "of", len(flagged))
print(f"seed 0: Grad-CAM gives every token a score of 0 in {empty} texts. Texts with indigo first:")
pandas.DataFrame(counts)

# %% [markdown]
# All five models predict *flagged* for all 40 texts, yet only AttnLRP, integrated gradients, occlusion and rollout find
# the reason in every text of each. (Rollout is the same for every class, as notebook 04 shows; here it happens to be
# right.) `lrp`, `simple` and `raw-attention` miss at most six texts. The others depend on the training run: `gae` finds
# the word in 6 to 40 texts, and Grad-CAM in 0 to 36. Grad-CAM sets negative scores to 0; with seed 0, nothing is left
# in 37 texts. So one model does not show that a method works.
#
# ## Other kinds of models
#
# `nbsal.load` also takes adapters of peft, SentenceTransformer, CrossEncoder and SetFit, and any module with one
# transformer inside. A pipeline keeps its truncation, its labels and its activation function, so that the explained
# prediction is the pipeline's:

# %%
pipe = transformers.pipeline("text-classification", "flagger", truncation=True, max_length=32, top_k=None)
print({row["label"]: round(row["score"], 4) for row in pipe([text])[0]})
print(nbsal.Explainer(nbsal.load(pipe))(text).caption())

# %% [markdown]
# A function from texts to probabilities, such as a service, has no gradients. The default is then `occlusion`, which
# only hides words:


# %%
def service(texts):
    return [[row["score"] for row in sorted(rows, key=lambda row: row["label"])] for rows in pipe(list(texts))]


black_box = nbsal.load(service, labels=["fine", "flagged"])
words = nbsal.Explainer(black_box)(text).by_word()[["word", "score"]]
words.nlargest(3, "score").style.hide().format(precision=2)

# %% [markdown]
# *indigo* has the whole score. To see what training changed, `nbsal.compare` explains the same texts with two
# checkpoints, here one saved after a single step of training, and the last one:

# %%
before = nbsal.load(word_classifier("flagger/before", steps=1))
many = nbsal.compare({"before": before, "after": mine}, "attn-lrp", flagged, targets="flagged", progress=False)
print({name: hits(explanations) for name, explanations in many.items()}, "of", len(flagged))

# %% [markdown]
# Before training, the word that decides later is one of many; after it, it is always first.
#
# ## Pairs
#
# A pair is a tuple of two texts. You can explain the prediction, another class, or the difference of two classes:

# %%
nli = nbsal.Explainer(nbsal.load("demo/nli"))
pair = ("A woman in a red coat is walking her dog along a snowy street.", "Nobody is outside.")
nli(pair, target=nbsal.contrast("contradiction", "neutral"), check=True)

# %% [markdown]
# *Nobody* alone decides. With it, the logit of *contradiction* is 6.3 above that of *neutral*; without it, the two are
# level. Hiding any other word that was tried changes the difference by at most 0.25.
#
# ## Spans
#
# A question-answering model predicts the first and the last token of an answer. The pair is (question, context), and
# the target is the predicted span unless you pass another as (first token, last token).

# %%
answers = nbsal.Explainer(nbsal.load("demo/answers"))
context = "The comet was discovered by Caroline Herschel in 1786 from her garden in Slough."
answers(("When was the comet discovered?", context), check=True)

# %% [markdown]
# Two words have high scores: the answer itself, and *When*. Without *When*, 1.1 % is left of the answer's 96.2 %, so it
# does matter what the question asks for.
#
# ## Next tokens
#
# A causal model predicts the token after the text. `demo/notes` answers from the notes in its prompt, so the reason is
# known again: the first note has the city. The contrast asks why *Oslo* rather than *Lima*:

# %%
notes = nbsal.load("demo/notes")
prompt = nbsal.samples.notes.prompt(["Mara lives in Oslo now.", "Ben lives in Lima now."], "Where does Mara live?")
rather = {"text": f"{prompt} Mara lives in", "target": nbsal.contrast(" Oslo", " Lima")}
nbsal.Explainer(notes)(**rather)

# %% [markdown]
# The city in the first note has most of the score. Do other methods find it too? Below, each score is divided by the
# sum of all absolute scores:

# %%
shares = {}
for name in ("attn-lrp", "gradxact", "occlusion", "shapley", "gae", "integrated", "simple", "transformer-attribution"):
    one = nbsal.Explainer(notes, name)(**rather)
    part = abs(one.scores) / abs(one.scores).sum()
    city, last = one.tokens.index(" Oslo"), len(part) - 1
    shares[name] = {"Oslo": part[city], "last token": part[last], "largest": one.tokens[part.argmax()].strip()}
pandas.DataFrame(shares).T.astype({"Oslo": float, "last token": float}).round(2)

# %% [markdown]
# Four of the eight methods rank *Oslo* first. Occlusion ranks *Mara* first, the name by which the note is found;
# integrated gradients and Simple rank a hyphen first. Transformer attribution gives 97 % to the last token, where the
# model predicts: the method adds a constant 1 to the score there, whatever the target, and for a span at both ends.
# Leave these positions out, and rank the rest.
#
# ## A method of your own
#
# A method is a small frozen dataclass. This one asks what a position adds *beyond the average position of its text*: it
# subtracts the mean hidden state before it multiplies by the gradient. `needs` lists what it reads of a run of the
# model, `cost` the passes it takes, and `promise` what holds for its scores. `features` scores the hidden layer
# (`self.chosen`), and `aggregate` adds up the features of each position.


# %%
@register(
    "centred",
    family="gradient",
    needs={"hidden", "hidden_grad"},
    paper="this notebook",
    cost=Cost(forwards=1, backwards=1),
    promise={"signed", "about_target"},
)
@dataclass(frozen=True)
class Centred(LayerMethod):
    """Gradient times what a position has beyond the average of its text."""

    def features(self, trace):
        hidden, lengths = trace.hidden[self.chosen], trace.lengths()[:, None, None]  # tokens of each text
        is_token = torch.arange(hidden.shape[1], device=hidden.device)[None, :, None] < lengths  # and not padding
        return trace.hidden_grad[self.chosen] * (hidden - (hidden * is_token).sum(1, keepdim=True) / lengths)

    def aggregate(self, features):
        return features.sum(-1)


results = nbsal.testing.run(Centred(layer=1), nbsal.testing.tiny_models.load("bert"))
pandas.Series({result.check: result.outcome for result in results}, name="outcome").to_frame().T

# %% [markdown]
# `nbsal.testing` checks what every method must do: a text has the same scores in a batch as alone, padding changes
# nothing, and cost and promises are true. It does not check that the method is any good. For that, compare it with a
# similar one by hiding and revealing words ([notebook 08](08_judging_explanations.ipynb)):

# %%
sample = nbsal.data.load("sst2" if DATA else "samples/reviews")
sample = sample.sample(min(SIZE or len(sample), len(sample)), random_state=0)
reviews = nbsal.load("demo/reviews")
explainers = {f"{name} l5": nbsal.Explainer(reviews, name, layer=5) for name in ("centred", "gradxact")}
games = nbsal.evaluation.games(explainers, nbsal.data.texts(sample), sample["label"].tolist(), random=0, progress=False)
margins = games.paired("centred l5", "gradxact l5")
margins[["first", "second", "game", "margin", "low", "high", "p_holm"]].style.hide().format(precision=3)

# %% [markdown]
# `margin` is by how much the new method is better. Zero lies within both intervals: 40 texts cannot tell the two apart,
# and nothing supports the new one.
#
# ## What to use on your own model
#
# | your case | use | because |
# |---|---|---|
# | classes, pairs, spans, next tokens | the default, `attn-lrp` | it found the word in all texts of five models |
# | a decision that matters | `check=True` | it shows the prediction without the first words |
# | a function or a service | the default, `occlusion` | it needs no gradients |
# | a second opinion | `occlusion`, `integrated` | they found the word too, and work differently |
# | a question about one layer | `decoded-gradcam` | not for decisions: it missed the word with some seeds |
# | two classes or tokens | `nbsal.contrast(a, b)` | it leaves out what both share |
#
# Before you rely on any method for your model, repeat the test above with it: fine-tune a copy on texts with a planted
# word, and count in how many the method ranks the word first. If texts exceed the model's length,
# `Explainer(..., long="window")` reads overlapping windows. Your model is never converted or changed.
#
# **Where to go next:** [08 Judging explanations](08_judging_explanations.ipynb) tests methods where no reason is known;
# [10 Auditing a guard](10_auditing_a_guard.ipynb) looks for the words that cause a classifier's mistakes;
# [11 Real models](11_real_models.ipynb) explains models that others trained.
#
# ## Exercises
#
# 1. Which of the four methods that always found *indigo* find it with the seeds 5 to 9 too?
# 2. Write a method that scores the size of the gradient alone, and check it with `nbsal.testing.run`.
# 3. Load a model of yours. Which layer do its decoded methods read by default, and what does `nbsal doctor` miss?
#
# <details><summary>Answers</summary>
#
# 1. All four: `subject = nbsal.load(word_classifier(f"flagger/{seed}", seed=seed))` for each seed, then `hits` as
#    above, is 40 each time.
# 2. Return `trace.hidden_grad[self.chosen]` from `features` and `features.norm(dim=-1)` from `aggregate`, and promise
#    `{"nonnegative", "about_target"}`; all checks pass. `simple` is this method.
# 3. `subject.default_layer` is the layer, about 60 % of the depth. `nbsal doctor`, in a shell, lists the optional
#    packages that are missing and what each is for.
#
# </details>
