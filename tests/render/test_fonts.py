"""Test that pictures use any installed font that has a character, and warn once of characters that none has."""

import re
import warnings
from contextlib import nullcontext

import pytest
from matplotlib import font_manager, rc_context

import nbsal
from nbsal.render import fonts, html, lettering, sheet_png
from nbsal.render.sheet import Heading, Marked, Sheet
from nbsal.widgets import Layers

BOLD = "\U0001d404"  # not in matplotlib's default font, but in another font that matplotlib installs
PRIVATE_USE = [chr(0xE000 + place) for place in range(12)]  # in no font


def draw(text):
    blocks = [Heading([("text", "a title")]), Marked([[html.ScoredSpan(text, 0.5)]], 0.5)]
    return sheet_png.render(Sheet("", blocks))


def has_bold(path):
    return bool(font_manager.get_font(path).get_char_index(ord(BOLD)))


def test_a_family_is_added_for_characters_that_the_default_font_lacks():
    default, *others = before = fonts.families(f"plain {BOLD}\u200b\t")
    assert [default] == fonts.families("plain \u200b\t") and len(others) == 1
    assert has_bold(font_manager.findfont(font_manager.FontProperties(family=others)))
    with rc_context({"font.family": ["STIXGeneral"]}):
        assert fonts.families(BOLD) == ["STIXGeneral"], "this font has the character"
        assert has_bold(fonts.best_font([BOLD])), "clouds start from DejaVu Sans"
    assert fonts.families(f"plain {BOLD}") == before


def test_a_character_of_a_bold_face_alone_is_not_of_its_family(monkeypatch):
    """DejaVu Serif has some characters in bold only, and an installed copy of it is listed after matplotlib's own."""
    regular, bold = (font_manager.findfont(family) for family in ("DejaVu Sans", "STIXGeneral"))
    faces = [(regular, 400), (bold, "bold")]
    entries = [font_manager.FontEntry(fname=path, name="Two", style="normal", weight=weight) for path, weight in faces]
    for listed in (entries, entries[::-1]):
        monkeypatch.setattr(font_manager.fontManager, "ttflist", listed)
        assert fonts._installed.__wrapped__()["Two"][0] == regular


@pytest.mark.parametrize("fallback", [True, False])
def test_pictures_have_every_glyph_that_a_font_has(monkeypatch, fallback):
    monkeypatch.setattr(lettering, "_without_glyph_warnings", nullcontext)
    if not fallback:
        monkeypatch.setattr(fonts, "families", lambda text, first=(): ["sans-serif"])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        draw(BOLD)
    assert any("Glyph" in str(warning.message) for warning in warned) != fallback


def test_one_warning_lists_characters_that_no_font_has(small):
    def codes(warned):
        return [re.findall(r"U\+(\w+)", str(warning.message)) for warning in warned]

    with pytest.warns(UserWarning) as warned:
        draw("".join(PRIVATE_USE))
    assert codes(warned) == [[f"E00{place}" for place in range(10)]] and "2 more" in str(warned[0].message)
    with pytest.warns(UserWarning) as warned:
        axes = nbsal.Explainer(small, "gradcam").every_layer("A joy.").plot()
        axes.set_title("".join(PRIVATE_USE[1:3]))
        lettering.png(axes.figure)
    assert codes(warned) == [["E001", "E002"]]


def test_characters_that_a_font_has_are_drawn_without_a_warning(small, monkeypatch):
    word = BOLD * 3
    cloud, default = nbsal.clouds.Cloud({"bold": {word: 1.0}}, "word"), fonts.best_font(["plain"])
    image = cloud.wordcloud("bold").tobytes()
    with monkeypatch.context() as patch:
        patch.setattr(fonts, "best_font", lambda words: default)
        assert image != cloud.wordcloud("bold").tobytes()
    explain = nbsal.Explainer(small, "gradcam")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(f"plain {BOLD} \u200d\u00a0\t\n e\u0301")
        assert Layers(explain, text="A joy.").to_png()[:4] == b"\x89PNG"
        for explanation in (explain(f"A joy, {word}."), explain.every_layer(f"A joy, {word}.")):
            explanation.plot().figure.canvas.draw()


def test_best_font_for_several_words():
    default = fonts.best_font(["plain", "\u200b"])
    assert font_manager.get_font(default).family_name == "DejaVu Sans"
    assert fonts.best_font(PRIVATE_USE) == default, "no font has more"
    fallback = fonts.best_font([BOLD])
    assert fallback != default and has_bold(fallback)


def test_missing_and_damaged_fonts_are_skipped(monkeypatch, tmp_path):
    (tmp_path / "damaged.ttf").write_bytes(b"no font")
    names = ("missing", "damaged")
    bad = [font_manager.FontEntry(str(tmp_path / f"{name}.ttf"), name, style="normal") for name in names]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*bad, *font_manager.fontManager.ttflist])
    fonts._installed.cache_clear()
    fonts._family.cache_clear()
    assert len(fonts.families(BOLD)) == 2 and fonts.best_font([BOLD]) != fonts.best_font(["plain"])
    assert not set(names) & fonts._installed().keys()
