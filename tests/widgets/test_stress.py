"""A view under many changes at once, from pages, cells and links: the last state wins and nothing hangs."""

import gc
import random
import threading

import ipywidgets
import pytest

import nbsal
from nbsal.explain.saliency import Saliency
from nbsal.widgets import Highlight
from tests.widgets.test_view import TEXT, from_page

WORDS = TEXT.split()


def changes(count, seed):
    """Random changes of the text, layer, target and method; now and then one that fails."""
    pick = random.Random(seed)
    for _ in range(count):
        yield pick.choice(
            [
                {"text": " ".join(pick.choices(WORDS, k=pick.randrange(1, 9)))},
                {"layer": pick.randrange(4)},
                {"target": pick.choice([None, "negative", "positive"])},
                {"method": pick.choice(["gradcam", "decoded-gradcam", "attcat"])},
                {"text": pick.choice(["", "  "])} if pick.random() < 0.2 else {"tau": pick.choice([None, 1, 3])},
            ]
        )


def count_alive(kind):
    """The number of living objects of a class."""
    gc.collect()
    return sum(type(item) is kind for item in gc.get_objects())


def settle(view):
    """Wait for the last request; check that the scores are those of the view's traits."""
    view.text = TEXT
    view.wait(120)
    settings = {"layer": view.layer} if "gradcam" in view.method else {}
    settings |= {"tau": view.tau} if "decoded" in view.method else {}
    expected = nbsal.Explainer(view.subject, view.method, **settings)(TEXT, view.target)
    assert (view.result.scores == expected.scores).all() and view.status == "ready"


@pytest.mark.filterwarnings("ignore:At the last layer")
def test_two_linked_views_changed_from_both_sides_end_alike(small):
    explain = nbsal.Explainer(small, "decoded-gradcam")
    threads_before, results_before = threading.active_count(), count_alive(Saliency)
    views = [Highlight(explain, text=TEXT) for _ in range(2)]
    names = ("text", "layer", "target", "method", "tau", "selection")
    links = [ipywidgets.link((views[0], name), (views[1], name)) for name in names]

    def page(view, seed):
        for change in changes(200, seed):
            from_page(view, **change)

    def cell(view, seed):
        for change in changes(200, seed):
            for name, value in change.items():
                setattr(view, name, value)

    sides = [(page, views[0]), (page, views[1]), (cell, views[0]), (cell, views[1])]
    threads = [threading.Thread(target=side, args=(view, seed)) for seed, (side, view) in enumerate(sides)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "two threads wait for each other"
    for name in names:
        assert getattr(views[0], name) == getattr(views[1], name)
    for view in views:
        settle(view)
    for link in links:
        link.unlink()
    assert threading.active_count() <= threads_before + 1
    assert count_alive(Saliency) < results_before + 20, "old results are released"
