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
# # Does it use what it cites?
#
# A reply ends a sentence with [2]. Whether document 2 says so can be read. Whether the model *used* document 2 cannot:
# a citation that was added to what the model would have said anyway looks the same.
#
# **You will be able to** tell whether a reply uses what it cites, derive each number and each verdict by hand, and
# compare systems over a log. Twenty minutes; you should have seen `09_generated_answers`.

# %%
# %matplotlib inline
import os
import tempfile
from random import Random

import numpy as np
import pandas
import torch

import nbsal

SIZE = int(os.environ.get("NBSAL_SIZE", 60)) or 220  # replies of the log
pandas.set_option("display.float_format", "{:z.2f}".format, "display.max_colwidth", None)
model = nbsal.load("demo/notes")
documents = ["Mara lives in Oslo now.", "Boris lives in Rouen.", "The keys to the attic are with Mara."]


def explain(question, reply, documents=documents):
    asked = [{"role": "user", "content": question}]
    return nbsal.answer(model, asked, reply, documents=documents, progress=False)


def verdicts(answer, *more):
    frame = answer.citations()
    frame["cites"] = [", ".join(map(str, numbers)) for numbers in frame["cites"]]
    return frame[["statement", "cites", "drop", "only", *more, "verdict"]]


pandas.DataFrame({"document": documents}, index=range(1, 4))

# %% [markdown]
# ## One reply, two citations
#
# The reply is given, with its marks. (The vocabulary of `demo/notes` has no brackets, so the marks are cut out before
# the model reads the reply. A model that knows brackets reads it as it is.)

# %%
where = "To which city did the keys to the attic go?"
right = explain(where, " The keys to the attic are with Mara [3], and Mara lives in Oslo [1].")
verdicts(right)

# %% [markdown]
# There is one row for each citation, with the statement that ends there. The same reply was scored without each
# document, with each document alone, and without any:
#
# * `drop` = log p(statement | all documents) − log p(statement | all but the cited ones)
# * `only` = log p(statement | the cited ones alone) − log p(statement | no document)
#
# Both are in nats. Hiding a document takes its tokens out of the prompt; all other tokens keep their positions.
#
# Now the same reply with wrong marks, and a reply with a city that no document has:

# %%
swapped = explain(where, " The keys to the attic are with Mara [2], and Mara lives in Oslo [3].")
verdicts(swapped, "used_instead")

# %%
invented = explain(where, " The keys to the attic are with Mara [3], and Mara lives in Kyoto [1].")
verdicts(invented)

# %% [markdown]
# "elsewhere" means that the statement is from another document, `used_instead`. "not from the documents" means that it
# is from none. The model would hardly write such replies itself. A verdict says where the words of a reply come from
# for a model that reads the reply, whoever wrote it.
#
# Mind the last two rows of numbers. *Mara lives in Oslo* drops by 3.61 without document 3, which is not its source. And
# document 1 makes *Mara lives in Kyoto* more likely by 7.34, although it says nothing of Kyoto: any note that someone
# lives somewhere does that. So `drop` and `only` of a whole statement do not decide. Its words do.
#
# ## How a verdict is decided
#
# The verdict looks at the content words of a statement, without function words such as *and* or *in*.
#
# 1. **Effect of a document on a word.** By how much the word's log-odds fall without the document, or rise with it
#    alone; the larger counts. A baseline is subtracted from both, since any document changes a word a little: of the
#    values of all documents and a 0, the median of the lower half. (Probabilities above 0.95 count as 0.95.)
# 2. **A document gives a word** if its effect is at least ln 2 = 0.69, or 3 for a word that the question has, and at
#    least half of the largest effect. If some of these documents contain the word, only those count. If none
#    does, all of them count, but only if the word has a probability of 0.25 or more and at least one document does not
#    give it.
# 3. **Decisive words** are those that a document gives, without words of the question and without words that no giving
#    document contains, as long as others are left; and of these, those whose effect is at least half of the largest.
# 4. **The cited documents say so** if they contain all content words of the statement (for "decoration", all decisive
#    ones), or if their effects on the decisive words are more than half of those of all documents that give these
#    words.
#
# The verdict is the first of these that holds:
#
# * **not from the documents**: some words are in neither a document nor the question and have p < 0.25, and the sum of
#   their −log p exceeds the sum of the effects on the decisive words
# * **decoration**: hiding all documents that give the decisive words together lowers none of them by 0.69 (or 3), and
#   the cited documents say so; if they do not say so, "not from the documents"
# * **supported**: the cited documents say so, and give a decisive word
# * **elsewhere**: they do not say so, and give no decisive word; `used_instead` is the document with the largest
#   effects
# * **unclear**: all else
#
# The thresholds were set by hand on 72 made-up replies. The checks in the guide (last section) use others.
#
# The numbers of steps 1 to 3 from the log-probabilities that were measured, by hand:


# %%
def log_odds(logprob):
    logprob = min(logprob, np.log(0.95))
    return logprob - np.log(1 - np.exp(logprob))


def beyond_usual(values):
    return values - np.median(np.sort([*values, 0.0])[: (len(values) + 1) // 2])


def effects(answer, words):
    """The effect of each document on some words of the reply (the last mention of each)."""
    tokens = answer.tokens()["token"].str.strip().tolist()
    measured = answer.check_citations(progress=False).subsets
    rows = []
    for word in words:
        at = len(tokens) - 1 - tokens[::-1].index(word)
        everything, nothing = log_odds(measured.without([])[at]), log_odds(measured.only([])[at])
        falls = [everything - log_odds(measured.without([number])[at]) for number in measured.documents]
        rises = [log_odds(measured.only([number])[at]) - nothing for number in measured.documents]
        values = np.maximum(beyond_usual(falls), beyond_usual(rises))
        named = {f"document {number}": value for number, value in zip(measured.documents, values, strict=True)}
        rows.append({"word": word, "−log p": -measured.without([])[at], **named})
    return pandas.DataFrame(rows)


effects(right, ["Mara", "lives", "Oslo"])

# %% [markdown]
# This is the second statement, *and Mara lives in Oslo*. Document 1 gives *Oslo*: 17.23, and document 3 has less than
# half of that. For *lives*, documents 1 and 2 have 1.53 and 1.07, and for *Mara* document 3 has 2.85; both are less
# than half of 17.23. So *Oslo* is the only decisive word, and document 1 its only source. Cited as [1], the statement
# is **supported**. Cited as [3], it is **elsewhere**: document 3 gives no decisive word.

# %%
effects(invented, ["Mara", "lives", "Kyoto"])

# %% [markdown]
# No document contains *Kyoto*, and its −log p is 23.81, far above 1.39 (p = 0.25). So nothing gives it, whatever its
# effects. The effects on the decisive words, *Mara* and *lives*, the largest of each, sum to 4.38 (2.85 and 1.53),
# which is less than 23.81: **not from the documents**.
#
# ## A citation that decorates
#
# Here the user has already said it. Document 1 says the same, so the citation is *right*:

# %%
said = explain("Mara lives in Oslo now. Boris lives in Rouen. Where does Mara live?", " Mara lives in Oslo [1].")
verdicts(said)

# %%
effects(said, ["Mara", "lives", "Oslo"])

# %% [markdown]
# The question has all three words. Document 1 gives *Mara* (3.33, at least 3), and nothing gives the others: the model
# knows them from the question. So *Mara* is decisive. The effect is measured against the baseline. The fall of the
# log-odds without document 1 is not: it is 2.63, less than 3 (*Mara* is the only word that falls, so this is also
# `drop`). Document 1 says so and is not needed: **decoration**.
#
# ## Two documents that say the same

# %%
twice = [*documents, "Mara lives in Oslo now."]
doubled = explain("Where does Mara live?", " Mara lives in Oslo [1].", twice)
verdicts(doubled)

# %%
effects(doubled, ["Mara", "lives", "Oslo"])

# %% [markdown]
# `drop` is 0.00, because the copy, document 4, is left. But each copy alone gives *Oslo* (8.53). Hiding both together
# lowers the statement (next cell), so the citation is **supported**. This is why documents are hidden *and* kept alone,
# and why all documents that give the decisive words are hidden together.
#
# `drop` and `only` themselves come from the model. The next cell reads the prompt without some documents, whose tokens
# are left out:


# %%
def logprob(answer, hidden, count):
    """The log-probability of the first `count` tokens of a reply without some documents of its prompt."""
    prompt, ids = answer.reading.prompt, answer.reading.row.ids
    sources = [number for number, source in enumerate(prompt.sources) if source.kind == "document"]
    left_out = {sources[number - 1] for number in hidden}
    places = [place for place, owner in enumerate(prompt.owners) if owner not in left_out]
    start = len(places)  # of the reply
    places += range(len(prompt.ids), len(ids))
    with torch.no_grad():
        inputs = torch.tensor([[ids[place] for place in places]])
        logits = model.model(inputs, position_ids=torch.tensor([places])).logits[0]
    return sum(float(logits[start + i - 1].log_softmax(-1)[answer.ids[i]]) for i in range(count))


four = {1, 2, 3, 4}
values = {"all": [], "without 1": [1], "without 1 and 4": [1, 4], "only 1": four - {1}, "none": four}
by_hand = {name: logprob(doubled, hidden, count=4) for name, hidden in values.items()}  # *Mara lives in Oslo*
pandas.DataFrame(
    {
        "by hand": {
            "drop": by_hand["all"] - by_hand["without 1"],
            "only": by_hand["only 1"] - by_hand["none"],
            "drop of 1 and 4 together": by_hand["all"] - by_hand["without 1 and 4"],
        }
    }
)

# %% [markdown]
# `drop` and `only` are those of the table above. Without both copies, the statement drops by 7.76.
#
# ## Over a log
#
# Two made-up systems answer the same questions. Their replies are right. The careful one cites the right document; the
# careless one cites a random document in half of its replies. `citations=True` stores the verdicts with the replies; an
# interrupted run resumes.

# %%
rng = Random(0)
pool = [row for row in nbsal.samples.texts("notes") if len(row["source"]) == 1]
log = []
for row in pool[: SIZE // 2]:
    source, count = row["source"][0], len(row["documents"])
    cited = {"careful": source, "careless": rng.randrange(count) if rng.random() < 0.5 else source}
    for system, number in cited.items():
        reply = f" {row['answer'].rstrip('.')} [{number + 1}]."
        asked = [{"role": "user", "content": row["question"]}]
        truth = {"system": system, "cites the source": number == source}
        log.append({"asked": asked, "documents": row["documents"], "reply": reply, **truth})
occlusion = nbsal.Explainer(model, "occlusion")
replies = nbsal.corpus.explain(occlusion, log, f"{tempfile.mkdtemp()}/log", citations=True, progress=False)
shares = replies.verdicts([row["system"] for row in log]).query("share > 0")
shares[["group", "verdict", "share", "low", "high", "replies"]]

# %%
truth = pandas.DataFrame(log)[["system", "cites the source"]].assign(verdict=replies.citations()["verdict"])
truth.value_counts().rename("replies").reset_index()

# %% [markdown]
# All 12 citations of another document are "elsewhere", and all 48 of the source are "supported". So the share of
# "elsewhere", 0.40, is that of the wrong citations, and the intervals of the two systems do not overlap. These replies
# are as easy as they can be: one sentence of one form, from one note. The guide has harder ones.
#
# ## What to take with you
#
# - A citation can be right and the document still not used: ask what the statement would be without it.
# - Hide each document *and* keep each alone. Hiding misses what is said twice.
# - Compare with the other documents, never with zero: any text of a similar form makes a statement more likely.
# - A verdict is about this model and this prompt. How often verdicts are right where the truth is known is in the guide
#   [Citations](../.docs/guides/citations.md), with the commands that measure it.
#
# **Where to go next:** the guide also has `answer.fields()`, which does the same for the values of a JSON reply, and
# quotes. `nbsal citations log.jsonl --group system` compares systems from the shell.
#
# **Exercise.** Put one mark at the end of the whole reply, `[1, 3]`, and then `[1]` alone. What are the verdicts, and
# why?
#
# <details><summary>Answer</summary>
#
# Documents that are cited together are hidden together: `drop` is 47.81 for `[1, 3]`, and 15.33 for `[1]`. The decisive
# words of the whole sentence are the first *Mara*, which document 3 gives (19.54), and *Oslo*, which document 1 gives
# (17.23). `[1, 3]` is "supported". `[1]` is "unclear": it gives a decisive word, but 17.23 is less than half of the sum
# (36.77), and document 1 does not contain *keys*. So it does not say so.
#
# </details>
