"""Words of a corpus counted a few texts at a time, compared with all at once."""

import nbsal
from nbsal import corpus
from nbsal.corpus import units


def test_counts_of_parts_equal_those_of_all_texts(reviews, tmp_path, monkeypatch):
    texts = [*nbsal.data.load("samples/reviews")["text"].tolist()[:6], ""]  # one cannot be explained
    stored = corpus.explain(nbsal.Explainer(reviews, "gradxact"), texts, tmp_path / "out", progress=False)
    for unit in ("token", "word"):
        monkeypatch.undo()
        read = stored.units(unit)
        whole = read.frequencies()
        assert sum(counts.total() for counts in whole.values()) > 20
        for count in (1, 3, 7):
            monkeypatch.setattr(units, "TEXTS", count)
            assert read.frequencies() == whole
