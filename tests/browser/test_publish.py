"""Test that coloured HTML of a notebook is published as a picture."""

from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import nbformat
from PIL import Image

from tests import publish


def test_coloured_html_becomes_a_picture_that_keeps_its_words(chromium):
    marked = '<div role="figure" aria-label="a joy"><i style="background-color:rgba(230,126,16,1)">joy</i></div>'
    table = "<table><td>1</td></table>"
    outputs = [nbformat.v4.new_output("display_data", {"text/html": html}) for html in (marked, table)]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=outputs)])
    with ThreadPoolExecutor(1) as pool:  # Playwright runs in this thread, for the fixture
        pool.submit(publish.draw_coloured, notebook).result()
    publish.clean(notebook)
    picture, plain = notebook.cells[0].outputs
    assert plain.data == {"text/html": table} and set(picture.data) == {"image/png"}
    shape = picture.metadata["image/png"]
    image = Image.open(BytesIO(b64decode(picture.data["image/png"]))).convert("RGB")
    assert shape["alt"] == "a joy" and image.size == (2 * shape["width"], 2 * shape["height"])
    assert (230, 126, 16) in {colour for _, colour in image.getcolors(1 << 20)}
