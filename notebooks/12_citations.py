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
# A reply ends a sentence with [2]. Many tools check whether document 2 says so. Few ask whether the model *used* it: a
# citation that was added to what the model would have said anyway looks just the same.
#
# **You will be able to** tell a citation that carries its sentence from one that decorates it, see what a second
# document with the same fact hides from an ablation, derive every number by hand, and compare systems over a log. Ten
# minutes; you should have seen notebook 09.

# %%
# %matplotlib inline
import os
import tempfile
from random import Random

import numpy as np
import pandas
import torch

import nbsal
from nbsal.samples import embedded

SIZE = int(os.environ.get("NBSAL_SIZE", 60)) or 300  # replies of the log
pandas.set_option("display.precision", 2, "display.max_colwidth", None)
notes = nbsal.load("demo/notes")
documents = ["Mara lives in Oslo now.", "Boris lives in Rouen.", "The keys to the attic are with Mara."]
question = [{"role": "user", "content": "To which city did the keys to the attic go?"}]
pandas.DataFrame({"document": documents}, index=range(1, 4))

# %% [markdown]
# ## One reply, two citations
#
# The reply is given, with its marks. (The vocabulary of `demo/notes` has no brackets, so the marks are cut out before
# the model reads it; a model that knows brackets reads the reply as it was written.)

# %%
right = " The keys to the attic are with Mara [3], and Mara lives in Oslo [1]."
answer = nbsal.answer(notes, question, right, documents=documents, progress=False)
answer.citations()

# %% [markdown]
# A row for each citation, with the statement that ends there. The reply was scored again without each document, and
# with each document alone. `drop` is by how much the log-probability of the statement falls without what it cites,
# `only` by how much it rises from what it is without any document, when nothing but that is left.
#
# Now the same sentences with the wrong numbers, and with a city that no document names:

# %%
swapped = " The keys to the attic are with Mara [2], and Mara lives in Oslo [3]."
nbsal.answer(notes, question, swapped, documents=documents, progress=False).citations()

# %%
invented = " The keys to the attic are with Mara [3], and Mara lives in Kyoto [1]."
nbsal.answer(notes, question, invented, documents=documents, progress=False).citations()

# %% [markdown]
# "Elsewhere" names the document that the statement is from. The last statement is in no document, whatever it cites.
#
# ## A citation that decorates
#
# Here the user says so already. The document says the same, and the citation is *right*; but without the document, the
# reply would be what it is.

# %%
told = [{"role": "user", "content": "Mara lives in Oslo now. Boris lives in Rouen. Where does Mara live?"}]
decorated = nbsal.answer(notes, told, " Mara lives in Oslo [1].", documents=documents, progress=False)
decorated.citations()

# %% [markdown]
# ## What one document hides from another
#
# A fact that stands in two documents falls with neither: hiding one leaves the other. By drops alone, nothing would
# carry the sentence. What each document does *alone* shows both, and the verdict hides them together.

# %%
here = [{"role": "user", "content": "Where does Mara live?"}]
twice = [*documents, "Mara lives in Oslo now."]
doubled = nbsal.answer(notes, here, " Mara lives in Oslo [1].", documents=twice, progress=False)
doubled.citations()

# %%
checked = doubled.check_citations(progress=False)
tokens = [i for i, (start, end) in enumerate(checked.reading.reply_spans) if start < len(" Mara lives in Oslo")]
rows = [(n, checked.subsets.drop([n])[tokens].sum(), checked.subsets.rise([n])[tokens].sum()) for n in range(1, 5)]
both = checked.subsets.drop([1, 4])[tokens].sum()
print(f"without documents 1 and 4 together: {both:.2f}")
pandas.DataFrame(rows, columns=["document", "drop", "only"])

# %% [markdown]
# ## Every number by hand
#
# The model reads the prompt without the tokens of a document; all other tokens keep their positions. That is all:


# %%
def score(answer, hidden):
    """The log-probability of the statement without some documents, whose tokens are left out."""
    prompt = answer.reading.prompt
    documents = [number for number, source in enumerate(prompt.sources) if source.kind == "document"]
    owners = {documents[number - 1] for number in hidden}
    kept = [place for place, owner in enumerate(prompt.owners) if owner not in owners]
    kept += range(len(prompt.ids), len(answer.reading.row))
    ids = torch.tensor([[answer.reading.row.ids[place] for place in kept]])
    with torch.no_grad():
        read = notes.model(ids, attention_mask=torch.ones_like(ids), position_ids=torch.tensor([kept])).logits[0]
    first = len(kept) - len(answer.ids)
    return sum(float(read[first + i - 1].log_softmax(-1)[answer.ids[i]]) for i in tokens)


whole, none = score(doubled, []), score(doubled, [1, 2, 3, 4])
own = [(n, whole - score(doubled, [n]), score(doubled, {1, 2, 3, 4} - {n}) - none) for n in range(1, 5)]
assert np.allclose(own, rows, atol=1e-4)
print(f"without documents 1 and 4 together: {whole - score(doubled, [1, 4]):.2f}")

# %% [markdown]
# ## Over a log
#
# Two made-up systems answer the same questions. The first cites the document that it used; the second cites any
# document in half of its replies. `citations=True` stores the verdicts with the replies; an interrupted run resumes.

# %%
rng = Random(0)
pool = [row for row in embedded.texts("notes") if len(row["source"]) == 1]
log = []
for number in range(SIZE):
    row, system = pool[number % len(pool)], ("careful", "careless")[number % 2]
    careless = system == "careless" and rng.random() < 0.5
    cited = rng.randrange(len(row["documents"])) if careless else row["source"][0]
    reply = f" {row['answer'].rstrip('.')} [{cited + 1}]."
    asked = [{"role": "user", "content": row["question"]}]
    log.append({"asked": asked, "documents": row["documents"], "reply": reply, "system": system})
explain = nbsal.Explainer(notes, "occlusion")
out = f"{tempfile.mkdtemp()}/cited"
replies = nbsal.corpus.explain(explain, log, out, citations=True, progress=False)
replies.verdicts([row["system"] for row in log]).query("share > 0").set_index(["group", "verdict"])

# %% [markdown]
# The shares are means over replies, with 95 % intervals. `replies.verdicts("position")` compares positions of the cited
# document, and `nbsal citations log.jsonl --group system` does the same from the shell.

# %% [markdown]
# ## Where does each field come from?
#
# Replies that fill a form have fields instead of citations. `fields()` reads JSON, or lines such as these, since the
# vocabulary of `demo/notes` has neither brackets nor quotes. For each value: the document, its place there, and by how
# much the log-probability of the value drops when that place and every copy of it are hidden.

# %%
form = "Mara: lives in Oslo\nBoris: lives in Kyoto"
nbsal.answer(notes, here, form, documents=documents, progress=False).fields()

# %% [markdown]
# Nobody lives in Kyoto. (The key *Boris* is read as it was written; a value is all that is tested.)
#
# ## What to take with you
#
# - A citation can be right and still decorate: ask what the statement would be without the document.
# - Hide each document *and* keep each alone. The first misses what is said twice, the second what the question says.
# - Compare with the other documents, never with zero: a text of a similar form makes every sentence likelier.
# - Verdicts follow what this model does with this prompt. How often they are right where the truth is known is in the
#   guide on citations, with the commands that measure it.
#
# **Exercise.** Put one mark at the end of the whole reply: `[1, 3]`, then `[1]` alone. What does the verdict go by?
#
# <details><summary>Answer</summary>
#
# Documents that are cited together are hidden together and kept together: the drop is 47.8 nats for `[1, 3]`, and 15.3
# for `[1]`. Both are "supported": the verdict goes by the words that are new, not by those that the question has, and
# of these *Oslo* gains most, which is from document 1.
#
# </details>
