"""The explained replies to a table of prompts, opened without their model."""

from typing import Any

from nbsal.corpus.parquet import ASKED
from nbsal.corpus.stored import Stored, reads_shards
from nbsal.corpus.verdicts import verdict_shares
from nbsal.explain.citations.cited import COLUMNS
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.validation import checked, positive_number

TOKEN_COLUMNS = ("tokens", "starts", "ends", "special", "logprob", "rank", "entropy", "drawn")


@checked
class Replies(Stored):
    """The explained replies of a run: a row for each prompt, with the reply, its tokens and its sources.

    `sources` and `statistics` tabulate them, `scores` gives those of one reply; `to_frame` has all columns.

    >>> import tempfile, nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/notes"), "gae")
    >>> rows = [{"asked": [{"role": "user", "content": "Where does Mara live?"}], "documents": ["Mara lives in Oslo."]}]
    >>> with tempfile.TemporaryDirectory() as out:
    ...     nbsal.corpus.explain_replies(explain, rows, out, documents="documents", progress=False)
    Replies(1 reply, gae)
    """

    asked = ASKED
    nouns = ("reply", "replies")

    @reads_shards
    def sources(self, method: str | None = None, k: int = 3) -> "pandas.DataFrame":
        """A row for each of the `k` units with the largest scores for each reply."""
        name, k = self._check_method(method), positive_number(k, "k")
        frame = self.to_frame(["text_id", "reply", name]).dropna(subset=[name])
        pairs = zip(frame.to_dict("records"), frame[name].tolist(), strict=True)
        rows = [(row["text_id"], row["reply"], *source.values()) for row, sources in pairs for source in sources[:k]]
        return pandas.DataFrame(rows, columns=["text_id", "reply", "unit", "text", "share", "score"])

    @reads_shards
    def citations(self) -> "pandas.DataFrame":
        """A row for each citation of every reply, as in `Answer.citations`, of a run with `citations=True`.

        `position` is the first document that it cites, `documents` how many there are, and `words` the length of its
        statement.
        """
        frame = self.to_frame(["text_id", "documents", "citations"]).dropna(subset=["citations"])
        rows = [
            {"text_id": text_id, "documents": documents, "position": min(cited["cites"], default=0)}
            | {"words": len(cited["statement"].split()), **cited}
            for text_id, documents, citations in frame.itertuples(index=False)
            for cited in citations
        ]
        names = ["text_id", "documents", "position", "words", *COLUMNS]
        return pandas.DataFrame(rows, columns=names).astype({"used_instead": "Int64"})

    def verdicts(self, by: Any = None) -> "pandas.DataFrame":
        """The share of each verdict on the citations of a reply, its mean over replies with a 95 % interval.

        `by` compares groups: "position" (of the document), "documents" (how many), "words" (shorter and longer
        statements), or a value for each row of the source, such as the system that wrote it.
        """
        return verdict_shares(self.citations(), by)

    @reads_shards
    def statistics(self) -> "pandas.DataFrame":
        """A row for each token of every reply: its place, and how likely the model finds it."""
        frame = self.to_frame(["text_id", *TOKEN_COLUMNS]).dropna(subset=["tokens"])
        rows = list[tuple[Any, ...]]()
        for row in frame.to_dict("records"):
            missing = [None] * len(row["tokens"])
            columns = [missing if row[name] is None else row[name] for name in TOKEN_COLUMNS]
            rows += [(row["text_id"], number, *values) for number, values in enumerate(zip(*columns, strict=True))]
        return pandas.DataFrame(rows, columns=["text_id", "number", "token", *TOKEN_COLUMNS[1:]])

    @reads_shards
    def scores(self, i: int, method: str | None = None) -> "pandas.DataFrame":
        """The scores of the units (columns) for each token (rows) of the reply to row `i` of the source."""
        name = self._check_method(method)
        at, place = self._find_row(i)
        table = self._read_columns(self.shards[at], ["error", "tokens", "units", f"{name}_scores"])
        row = {column: table[column][place].as_py() for column in table.column_names}
        if row["error"] is not None:
            raise InputError(f"Row {i} was not explained: {row['error']}", argument="i", value=i)
        units = [unit["text"] for unit in row["units"]]
        return pandas.DataFrame(row[f"{name}_scores"], index=row["tokens"], columns=units)
