"""Pictures draw what any installed font has, and say once what none has."""

import re
import warnings
from contextlib import nullcontext

import pytest
from matplotlib import font_manager, rc_context

import nbsal
from nbsal.render import fonts, html, png
from nbsal.widgets import Layers

BOLD = "\U0001d404"  # matplotlib's usual font lacks it, another one that comes with it has it
NOWHERE = [chr(0xE000 + place) for place in range(12)]  # of private use: no font's


def drawn(text):
    return png.highlighted(text, [[html.ScoredSpan(text, 0.5)]], 0.5)


def test_a_family_is_added_for_what_the_usual_one_lacks():
    usual, *others = fonts.families(f"plain {BOLD}\u200b\t")
    assert [usual] == fonts.families("plain \u200b\t") and len(others) == 1
    file = font_manager.findfont(font_manager.FontProperties(family=others))
    assert font_manager.get_font(file).get_char_index(ord(BOLD))


@pytest.mark.parametrize("helped", [True, False])
def test_pictures_lack_no_glyph_that_a_font_has(monkeypatch, helped):
    monkeypatch.setattr(png, "_boxes", nullcontext)
    if not helped:
        monkeypatch.setattr(fonts, "families", lambda text: ["sans-serif"])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        drawn(BOLD)
    assert any("Glyph" in str(warning.message) for warning in said) != helped


def test_one_warning_names_what_no_font_has(reviews):
    with pytest.warns(UserWarning, match=re.escape("(U+E000)")) as said:
        drawn("".join(NOWHERE))
    assert len(said) == 1 and " (U+E009) and 2 more: boxes" in str(said[0].message)
    with pytest.warns(UserWarning, match=re.escape("U+E001")) as said:
        layers = nbsal.Explainer(reviews, "gradcam").every_layer("A joy.")
        axes = layers.plot()
        axes.set_title("".join(NOWHERE[1:3]))
        png.draw_axes(axes)
    assert len(said) == 1


def test_nothing_is_said_of_what_is_drawn_or_invisible(reviews):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn(f"plain {BOLD} \u200d\u00a0\t\n e\u0301 \x1b")
        assert Layers(nbsal.Explainer(reviews, "gradcam"), text="A joy.").to_png()[:4] == b"\x89PNG"


def test_one_font_is_found_for_words_together():
    usual = fonts.best_families(["plain", "\u200b"])
    assert font_manager.get_font(usual).family_name == "DejaVu Sans"
    assert fonts.best_families(NOWHERE) == usual, "no font has more"
    other = fonts.best_families([BOLD])
    assert other != usual and font_manager.get_font(other).get_char_index(ord(BOLD))


def test_the_usual_font_is_the_one_that_settings_name_now():
    plain = fonts.families(BOLD)
    with rc_context({"font.family": ["STIXGeneral"]}):
        assert fonts.families(BOLD) == ["STIXGeneral"], "it has that character itself"
        assert font_manager.get_font(fonts.best_families([BOLD])).get_char_index(ord(BOLD)), "clouds ask DejaVu Sans"
    assert fonts.families(BOLD) == plain and len(plain) == 2


def test_fonts_that_are_gone_or_damaged_are_passed_over(monkeypatch, tmp_path):
    (tmp_path / "damaged.ttf").write_bytes(b"no font")
    bad = [font_manager.FontEntry(str(tmp_path / f"{name}.ttf"), name, style="normal") for name in ("gone", "damaged")]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*bad, *font_manager.fontManager.ttflist])
    fonts._installed.cache_clear()
    fonts._family.cache_clear()
    assert len(fonts.families(BOLD)) == 2 and fonts.best_families([BOLD]) != fonts.best_families(["plain"])
    assert not {"gone", "damaged"} & fonts._installed().keys()


def test_clouds_and_plots_are_drawn_in_fonts_that_have_their_words(reviews, monkeypatch):
    word = BOLD * 3
    cloud = nbsal.clouds.Cloud({"plain": {"joy": 1.0}, "bold": {word: 1.0}}, "word")
    assert cloud.font("plain") != cloud.font("bold")
    (placed,) = cloud.layout("bold")
    assert placed[0] == word and cloud._drawn("bold", 50, (600, 300), 0).font_path == cloud.font("bold")
    explain = nbsal.Explainer(reviews, "gradcam")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for found in (explain(f"A joy, {word}."), explain.every_layer(f"A joy, {word}.")):
            found.plot().figure.canvas.draw()
