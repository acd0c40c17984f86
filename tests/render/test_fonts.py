"""Test that pictures use any installed font that has a character, and warn once of characters that none has."""

import re
import warnings
from contextlib import nullcontext

import pytest
from matplotlib import font_manager, rc_context

import nbsal
from nbsal.render import fonts, html, text_lines
from nbsal.widgets import Layers

BOLD = "\U0001d404"  # not in matplotlib's default font, but in another font that matplotlib installs
PRIVATE_USE = [chr(0xE000 + place) for place in range(12)]  # in no font


def draw(text):
    scored_text = text_lines.ScoredText("a title", [[html.ScoredSpan(text, 0.5)]], 0.5)
    return text_lines.png(text_lines.draw([scored_text]))


def test_a_family_is_added_for_characters_that_the_default_font_lacks():
    default, *others = fonts.families(f"plain {BOLD}\u200b\t")
    assert [default] == fonts.families("plain \u200b\t") and len(others) == 1
    file = font_manager.findfont(font_manager.FontProperties(family=others))
    assert font_manager.get_font(file).get_char_index(ord(BOLD))


@pytest.mark.parametrize("fallback", [True, False])
def test_pictures_have_every_glyph_that_a_font_has(monkeypatch, fallback):
    monkeypatch.setattr(text_lines, "_without_glyph_warnings", nullcontext)
    if not fallback:
        monkeypatch.setattr(fonts, "families", lambda text: ["sans-serif"])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        draw(BOLD)
    assert any("Glyph" in str(warning.message) for warning in warned) != fallback


def codes(warning):
    """The code points that a warning lists."""
    return re.findall(r"U\+(\w+)", str(warning.message))


def test_one_warning_lists_characters_that_no_font_has(reviews):
    with pytest.warns(UserWarning) as warned:
        draw("".join(PRIVATE_USE))
    assert [codes(warning) for warning in warned] == [[f"E00{place}" for place in range(10)]]
    assert "2 more" in str(warned[0].message)
    with pytest.warns(UserWarning) as warned:
        layers = nbsal.Explainer(reviews, "gradcam").every_layer("A joy.")
        axes = layers.plot()
        axes.set_title("".join(PRIVATE_USE[1:3]))
        text_lines.png(axes.figure)
    assert [codes(warning) for warning in warned] == [["E001", "E002"]]


def test_no_warning_of_characters_that_are_drawn_or_invisible(reviews):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(f"plain {BOLD} \u200d\u00a0\t\n e\u0301")
        assert Layers(nbsal.Explainer(reviews, "gradcam"), text="A joy.").to_png()[:4] == b"\x89PNG"


def test_best_font_for_several_words():
    default = fonts.best_font(["plain", "\u200b"])
    assert font_manager.get_font(default).family_name == "DejaVu Sans"
    assert fonts.best_font(PRIVATE_USE) == default, "no font has more"
    fallback = fonts.best_font([BOLD])
    assert fallback != default and font_manager.get_font(fallback).get_char_index(ord(BOLD))


def test_the_default_font_follows_the_settings():
    before = fonts.families(BOLD)
    with rc_context({"font.family": ["STIXGeneral"]}):
        assert fonts.families(BOLD) == ["STIXGeneral"], "this font has the character"
        assert font_manager.get_font(fonts.best_font([BOLD])).get_char_index(ord(BOLD)), "clouds start from DejaVu Sans"
    assert fonts.families(BOLD) == before and len(before) == 2


def test_missing_and_damaged_fonts_are_skipped(monkeypatch, tmp_path):
    (tmp_path / "damaged.ttf").write_bytes(b"no font")
    bad = [
        font_manager.FontEntry(str(tmp_path / f"{name}.ttf"), name, style="normal") for name in ("missing", "damaged")
    ]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*bad, *font_manager.fontManager.ttflist])
    fonts._installed.cache_clear()
    fonts._family.cache_clear()
    assert len(fonts.families(BOLD)) == 2 and fonts.best_font([BOLD]) != fonts.best_font(["plain"])
    assert not {"missing", "damaged"} & fonts._installed().keys()


def test_clouds_and_plots_use_fonts_that_have_their_characters(reviews, monkeypatch):
    word = BOLD * 3
    cloud = nbsal.clouds.Cloud({"plain": {"joy": 1.0}, "bold": {word: 1.0}}, "word")
    assert cloud.font("plain") != cloud.font("bold")
    (entry,) = cloud.layout("bold")
    assert entry[0] == word and cloud._wordcloud("bold", 50, (600, 300), 0).font_path == cloud.font("bold")
    explain = nbsal.Explainer(reviews, "gradcam")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for explanation in (explain(f"A joy, {word}."), explain.every_layer(f"A joy, {word}.")):
            explanation.plot().figure.canvas.draw()


def test_the_default_font_is_looked_up_once_for_many_texts(monkeypatch):
    """Unless matplotlib's settings change."""
    lookups, find = [], font_manager.findfont
    monkeypatch.setattr(font_manager, "findfont", lambda *a, **k: lookups.append(a) or find(*a, **k))
    fonts._default_font.cache_clear()
    for text in ("a", "joy", "映画", "film"):
        fonts.families(text)
    assert len(lookups) == 1
    with rc_context({"font.sans-serif": ["STIXGeneral"]}):
        fonts.families("a")
    assert len(lookups) == 2
    fonts._default_font.cache_clear()
