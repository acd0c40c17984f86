"""A matplotlib text of one line that is drawn without a layout, which would take as long as its glyphs."""

from typing import Any

from matplotlib.text import Text


class LineText(Text):
    """A text that stands upright in one line and starts at its position, on its baseline."""

    def draw(self, renderer: Any) -> None:
        """Draw the text, without the layout, box, mathematics and clipping of matplotlib's own drawing."""
        if not self.get_visible():
            return
        x, y = self.get_transform().transform(self.get_position())
        if renderer.flipy():
            y = renderer.get_canvas_width_height()[1] - y
        graphics = renderer.new_gc()
        graphics.set_alpha(self.get_alpha())
        graphics.set_foreground(self.get_color())
        renderer.draw_text(graphics, x, y, self.get_text(), self.get_fontproperties(), 0, mtext=self)
        graphics.restore()
        self.stale = False
