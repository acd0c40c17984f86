"""Live pages in Chromium: they answer as Python does about the same rounded model, without Python and a network."""

import base64
import re
import shutil

import numpy as np
import pytest
from playwright.sync_api import expect

import nbsal
from nbsal import live, samples
from nbsal.ablation.engine import Ablation
from nbsal.explain import checking
from nbsal.live.tokenizer import tokenizer_tables
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter
from nbsal.widgets import Compare, Highlight, Layers
from nbsal.widgets.page.live_page import FOLDER, runnable
from nbsal.widgets.page.wire import utf16_positions
from tests import zoo
from tests.browser import bench
from tests.browser.conftest import open_page
from tests.browser.live_pages import Site, random_texts, served

TEXT = "A slow start, but the second half is warm, funny and beautifully played."
CONTRAST = nbsal.contrast("positive", "negative")
TARGETS = (None, "negative", CONTRAST)
FIVE = 5  # strongest words
CLOSE = 1e-4  # of the largest score
SPECIAL = [
    "o" * 100,
    "o" * 101,
    "x [SEP] y",
    "[CLS]",
    "say [UNK] or [MASK]!",
    "don’t",
    "naïve Straße İstanbul ΣΊΣΥΦΟΣ ﬁne",
    "e\u0301\u0327 a\u0301b",
]
MARKUP = "script, img, iframe, svg[onload], .nbsal-text b, .nbsal-text style"
LONG = ["word " * 700, "好" * 600]


@pytest.fixture(scope="module")
def subject(small):
    """The model as its rounded copy, in float64: what a page says must be what Python says of it."""
    return live.rounded(small).double


@pytest.fixture(scope="module")
def site(tmp_path_factory, chromium):
    folder = tmp_path_factory.mktemp("site")
    with served(folder) as address:
        site = Site(folder, address, chromium)
        yield site
        site.page.context.close()
    assert site.page.problems == []


def rows_of(traits, count):
    values = np.frombuffer(base64.b64decode(traits["_scores"]["$bytes"]), "<f4")
    return values.reshape(-1, count)


def sentence(said):
    return "".join(words for _, words in said["sentence"])


def expect_same_scores(rows, expected):
    """Scores agree to a ten-thousandth of the largest, and the strongest are the same wherever they differ by more."""
    assert rows.shape == expected.shape
    for row, truth in zip(rows, expected, strict=True):
        close = CLOSE * np.abs(truth).max()
        assert np.abs(row - truth).max() <= close
        for ours, theirs in zip(np.argsort(-np.abs(row))[:FIVE], np.argsort(-np.abs(truth))[:FIVE], strict=True):
            assert ours == theirs or abs(abs(truth[ours]) - abs(truth[theirs])) <= 2 * close


def expect_same_decision(decision, expected):
    names = "caption prediction target names method layer answer signed unit settings percentages".split()
    expected = expected | {"settings": expected["settings"].replace("float64", "float32")}  # the page's precision
    assert {name: decision[name] for name in names} == {name: expected[name] for name in names}
    shares = [dict(each["probabilities"]) for each in (decision, expected)]
    assert list(shares[0]) == list(shares[1]) and list(shares[0].values()) == pytest.approx(
        [*shares[1].values()], abs=1e-6
    )
    for legend, truth in zip(decision["legends"], expected["legends"], strict=True):
        assert [legend[name] for name in ("shares", "warning")] == [truth[name] for name in ("shares", "warning")]
        strongest = [{level: word for level, (word, _) in each["strongest"].items()} for each in (legend, truth)]
        assert strongest[0] == strongest[1]


def expect_same(site, view, **changes):
    """The page answers as a view in Python does."""
    traits = site.ask(**changes)
    assert (traits["status"], traits["error"]) == ("ready", "")
    for name, value in changes.items():
        setattr(view, name, value)
    expected = bench.plain(
        {name: getattr(view, name) for name in ("_tokens", "_result", "_statements")} if view.wait() else {}
    )
    count = expected["_tokens"]["count"]
    assert traits["_tokens"] == expected["_tokens"]
    scores = np.frombuffer(view._scores, "<f4").reshape(-1, count)
    expect_same_scores(rows_of(traits, count), scores)
    expect_same_decision(traits["_result"], expected["_result"])
    assert traits["_result"]["notes"] == expected["_result"]["notes"]
    assert list(map(sentence, traits["_statements"])) == list(map(sentence, expected["_statements"]))
    return traits


def texts_of(count):
    """Sample reviews, long and short ones."""
    texts = [row["text"] for row in samples.texts("reviews")]
    return texts[:: len(texts) // count][:count]


@pytest.fixture(scope="module", params=[1, pytest.param(100, marks=pytest.mark.full)])
def texts(request):
    return texts_of(request.param)


def test_every_layer_and_method_is_scored_as_in_python(site, small, subject, texts):
    site.show(Layers(nbsal.Explainer(small, "gradcam"), text=TEXT, check=False).wait())
    view = Layers(nbsal.Explainer(subject, "gradcam"), text=TEXT, check=False)
    for text in texts:
        for method in runnable():
            expect_same(site, view, text=text, method=method)


def test_classes_contrasts_and_tau_are_followed(site, small, subject):
    site.show(Highlight(nbsal.Explainer(small, "decoded-gradxact", layer=2), text=TEXT, check=False).wait())
    view = Highlight(nbsal.Explainer(subject, "decoded-gradxact", layer=2), text=TEXT, check=False)
    expect_same(site, view, target="negative")
    expect_same(site, view, target="positive", tau=2)
    expect_same(site, view, layer=0)
    traits = site.ask(target={"contrast": ["positive", "negative"]})
    view.target = nbsal.contrast("positive", "negative")
    expected = view.wait().statement.text()
    assert (traits["_result"]["target"], sentence(traits["_statements"][0])) == (view.result.target, expected)
    traits = site.ask(target="nowhere")
    assert traits["status"] == "error" and "nowhere" in traits["error"]


def in_page(target):
    """A target as a page has it."""
    return {"contrast": ["positive", "negative"]} if target is CONTRAST else target


def expect_same_words(said, expected):
    """Two texts that differ in percentages at most, by no more than a tenth of a percent."""
    number = r"\d+\.\d+"
    assert re.sub(number, "#", said) == re.sub(number, "#", expected)
    numbers = [[float(each) for each in re.findall(number, words)] for words in (said, expected)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.1001)


def expect_same_check(said, saliency, subject, target):
    """What the page says once it has hidden words is what Python says after its first check."""
    words = checking.words_of(saliency, Ablation(subject), "remove", target)
    checked = saliency.with_check(checking.first_check(words, Meter(None)), 0)
    probability = dict(zip(subject.labels, saliency.probabilities, strict=True)).get(saliency.target)
    expected = checked.statement(probability)
    expect_same_words(sentence(said), expected.text())
    marked = [[phrase for phrase in each if phrase[0] != "text"] for each in (said["sentence"], expected.sentence)]
    assert [tuple(phrase) for phrase in marked[0]] == marked[1]
    expect_same_words(said["evidence_line"], expected.evidence_line)
    assert (said["state"], said["badge"]) == (expected.state, expected.badge)
    assert len(said["effects"]) == len(expected.effects)
    for (name, value, share), (other_name, other_value, other_share) in zip(
        said["effects"], expected.effects, strict=True
    ):
        assert name == other_name
        expect_same_words(value, other_value)
        assert (share is None) == (other_share is None) and (share is None or abs(share - other_share) < 1e-3)
    return expected


def test_words_are_hidden_as_in_the_first_check_of_python(site, small, subject):
    site.show(Highlight(nbsal.Explainer(small, "decoded-gradcam", layer=2), text=TEXT).wait())
    states = set()
    asked = [(text, "decoded-gradcam", None) for text in texts_of(5)]
    odd = ["Warm.", "!", "The the the", "not bad not bad at all, not bad", texts_of(5)[3]]
    asked += [(text, method, target) for text in odd for method in ("gradcam", "gradxact") for target in TARGETS]
    for text, method, target in asked:
        (said,) = site.ask_checked(text=text, method=method, target=in_page(target))
        saliency = nbsal.Explainer(subject, method, layer=2)(text, target)
        states.add(expect_same_check(said, saliency, subject, target).state)
    assert states == {"supported", "weak"}


def test_pairs_are_checked_and_in_layers_the_chosen_layer_is(site):
    nli = nbsal.load("demo/nli")
    copy = live.rounded(nli)
    site.show(Layers(nbsal.Explainer(nli, "gradxact"), text=("A dog.", "It runs."), layer=3).wait())
    for pair in samples.texts("pairs")[::40]:
        pair = (pair["premise"], pair["hypothesis"])
        layers = nbsal.Explainer(copy, "gradxact").every_layer(pair)
        for layer in (3, 5):
            statements = site.ask_checked(text=pair, layer=layer)
            expect_same_check(statements[layer], layers.at(layer), copy, None)
        assert [said["state"] == "unchecked" for said in statements] == [layer not in (3, 5) for layer in range(7)]


def test_compare_finds_the_same_agreement(site, small, subject):
    shown, view = (
        Compare(nbsal.Explainer(each, "decoded-gradcam", layer=2), text=TEXT, other_method="gradxact", check=False)
        for each in (small, subject)
    )
    site.show(shown.wait())
    changes = [{"text": text} for text in ["Warm.", *texts_of(3)]] + [{"other_layer": 1}, {"other_target": "negative"}]
    changes += [{"text": TEXT, "other_layer": 2}]  # both name a word, for one class and against the other
    for change in [*changes, {"target": "negative", "method": "gradxact"}, {"layer": 3, "method": "decoded-gradcam"}]:
        traits = expect_same(site, view, **change)
        for level, expected in view._findings.items():
            assert traits["_findings"][level]["heading"] == expected["heading"]
            for scale, said in traits["_findings"][level]["statements"].items():
                assert sentence(said) == sentence(expected["statements"][scale])
                rows = traits["_findings"][level]["rows"][scale]
                assert [row["texts"] for row in rows] == [list(row["texts"]) for row in expected["rows"][scale]]
        expect_same_decision(traits["_other"], view._other)
    before = site.ask()
    site.page.get_by_role("button", name="Swap A and B").click()
    bench.wait_for(site.page, lambda: bench.trait(site.page, "status"), "ready")
    after = site.ask()
    assert after["_result"]["caption"] == before["_other"]["caption"]


def test_other_sizes_a_separate_lm_head_pairs_and_hostile_class_names(site, checkpoints):
    folder, lm = zoo.save(checkpoints, "bert", "sequence"), zoo.save(checkpoints, "bert", zoo.lm_head("bert"), seed=1)
    tiny = nbsal.load(folder, lm=lm, labels=[bench.HOSTILE[0], bench.HOSTILE[1], bench.HOSTILE[3]])
    site.show(Layers(nbsal.Explainer(tiny, "gradcam"), text="the dog", check=False).wait())
    view = Layers(nbsal.Explainer(live.rounded(tiny), "gradcam"), text="the dog", check=False)
    for method in runnable():
        expect_same(site, view, text="the old dog is not good . <b>", method=method)
    expect_same(site, view, target=bench.HOSTILE[1])
    expect_same(site, view, text=("the dog", "is empty 🎸 [SEP] now ."))
    assert site.page.locator("section.nbsal").locator(MARKUP).count() == 0
    assert not site.page.evaluate("() => 'pwned' in window")


@pytest.fixture(scope="module", params=[20, pytest.param(1000, marks=pytest.mark.full)])
def hostile(request):
    words = [f"{text[:40]} {kind}" for text, kind in zip(texts_of(24), bench.KINDS, strict=False)]
    known = [*bench.KINDS[:-1], *SPECIAL]
    if request.param > len(known):
        known += [*bench.HOSTILE, *LONG, *words]
    return [*known, *random_texts(max(5, request.param - len(known)))]


def test_hostile_texts_stay_texts_and_have_the_same_ids_or_are_refused(site, small, hostile):
    moving = tokenizer_tables(small.tokenizer)["moving"]
    cannot = {chr(first + i) for first, count in zip(moving[::2], moving[1::2], strict=True) for i in range(count)}
    site.show(Highlight(nbsal.Explainer(small, "gradcam", layer=3), text=TEXT, check=False).wait())
    refused = 0
    for text in hostile:
        traits = site.ask(text=text)
        assert site.page.locator("section.nbsal").locator(MARKUP).count() == 0
        try:
            (row,) = small.encode(text)
        except InputError:
            assert traits["status"] == "error"
            continue
        if traits["status"] == "error":
            normal = small.tokenizer.backend_tokenizer.normalizer.normalize_str(text)
            assert cannot & {*text, *normal}, (text, traits["error"])
            refused += 1
            continue
        places, pieces = utf16_positions(text), traits["pieces"]
        assert [piece["id"] for piece in pieces] == list(row.ids), text
        assert [(piece["start"], piece["end"]) for piece in pieces] == [(places[a], places[b]) for a, b in row.offsets]
        assert [piece["special"] for piece in pieces] == list(row.special)
        assert traits["_tokens"]["cut"] == (row.dropped > 0)
    assert refused < len(hostile) / 8 and not site.page.evaluate("() => 'pwned' in window")


@pytest.fixture(scope="module")
def highlight_page(site, small):
    """The address of a saved page of Highlight, whose first sentence was checked in Python."""
    view = Highlight(nbsal.Explainer(small, "decoded-gradcam", layer=2), text=TEXT, check=True).wait()
    view.to_html(site.folder / "highlight.html", live=True)
    return view


def state_of(page):
    return page.locator(".nbsal-state")


def test_typing_in_a_saved_page_repaints_it(chromium, site, highlight_page):
    page = open_page(chromium)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site.address}highlight.html")
    root = page.locator("section.nbsal")
    expect(root.locator(".nbsal-headline")).to_have_text(highlight_page.statement.text())
    expect(root.locator(".nbsal-footer")).to_contain_text("a small 8-bit copy of demo/reviews-small answers")
    assert not [url for url in asked if FOLDER in url]  # nothing is loaded before the first question
    root.get_by_role("button", name="Edit text").click()
    area = root.get_by_label("Text", exact=True)
    area.fill("")
    area.press_sequentially("What a dull, endless bore.", delay=20)
    expect(root.locator(".nbsal-headline")).to_contain_text(re.compile(r"negative, .*Without dull"))
    expect(bench.tokens(root)).to_have_text(["What", "a", "dull", ",", "endless", "bore", "."])
    expect(root.locator(".nbsal-footer")).to_contain_text(
        "a small 8-bit copy of demo/reviews-small · Decoded Grad-CAM, layer 2"
    )
    expect(state_of(page)).to_contain_text("Up to date")
    root.get_by_role("button", name="Done").click()
    root.locator(".nbsal-method-picker summary").click()
    expect(root.locator(".nbsal-method-picker b").nth(1)).to_have_text("Decoded Grad-CAM")
    root.get_by_text("Gradient × input").last.click()
    expect(root.locator(".nbsal-footer")).to_contain_text("Gradient × input, layer 2")
    root.get_by_role("button", name="positive").click()
    expect(root.locator(".nbsal-headline")).to_contain_text("Why not positive")
    assert root.get_by_text("Save", exact=True).is_hidden() and root.get_by_label("Next", exact=True).is_hidden()
    assert sum("model.bin" in url for url in asked) == 1
    assert [problem for problem in page.problems if "favicon" not in problem and "404" not in problem] == []
    page.context.close()


def test_nothing_is_said_of_a_text_that_was_emptied(chromium, site, highlight_page):
    page = open_page(chromium)
    page.goto(f"{site.address}highlight.html")
    page.get_by_role("button", name="Edit text").click()
    area = page.get_by_label("Text", exact=True)
    parts = [page.locator(".nbsal-check"), page.get_by_role("group", name="Explain"), page.locator(".nbsal-side")]
    for part in parts:
        expect(part).to_be_visible()
    area.fill("")
    for part in parts:
        expect(part).to_be_hidden()
    area.fill("A dull, endless bore.")
    for part in parts:
        expect(part).to_be_visible()
    page.context.close()


def test_a_page_from_disk_says_that_it_needs_a_server(chromium, site, highlight_page):
    page = open_page(chromium)
    page.goto((site.folder / "highlight.html").as_uri())
    expect(page.get_by_role("note")).to_contain_text("python -m http.server")
    expect(page.locator(".nbsal-headline")).to_have_text(highlight_page.statement.text())
    expect(page.get_by_role("button", name="Edit text")).to_be_hidden()
    expect(page.locator(".nbsal-footer")).not_to_contain_text("Edit the text")
    assert page.problems == []
    page.context.close()


def test_a_browser_without_webassembly_is_told_so(chromium, site, highlight_page):
    page = open_page(chromium)
    page.add_init_script("delete window.WebAssembly")
    page.goto(f"{site.address}highlight.html")
    expect(page.get_by_role("note")).to_contain_text("WebAssembly")
    expect(page.locator(".nbsal-headline")).to_have_text(highlight_page.statement.text())
    page.context.close()


def test_a_damaged_model_is_refused_and_asked_for_again(chromium, site, highlight_page, tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    shutil.copytree(site.folder, folder, dirs_exist_ok=True)
    (path,) = (folder / FOLDER).glob("demo-reviews-small-*/model.bin")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    page = open_page(chromium)
    with served(folder) as address:
        page.goto(f"{address}highlight.html")
        page.get_by_role("button", name="Edit text").click()
        area = page.get_by_label("Text", exact=True)
        area.fill("A dull bore.")
        expect(page.get_by_role("alert").filter(has_text="damaged")).to_be_visible()
        path.write_bytes(whole)
        area.fill("A dull, endless bore.")
        expect(page.locator(".nbsal-headline")).to_contain_text("Without dull")
        page.context.close()
