"""Small PNG files: palettes that keep the colours of both signs, and notebooks whose pictures fit into a size."""

from base64 import b64decode, b64encode
from io import BytesIO
from typing import Any

import nbformat
import numpy as np
import oxipng
from PIL import Image

from nbsal.render import colours

NOTEBOOK = 1_000_000  # bytes of a notebook file: pages that show notebooks often refuse larger ones
COLOURS = (128, 64, 48, 32)  # tried in this order until a notebook is small enough
STEPS = 8  # shades of each sign
WORD = 100  # pixels that a shaded word has at least; edges of lines have fewer of a colour
NEAR = 4.0  # distance in RGB from the shades of a sign within which a pixel has that sign
SCALE = 0.75  # of the pixels of a picture that is drawn at twice its size, if fewer colours are not enough
TIMES = 2  # that pictures are scaled at most
SMALL = 20_000  # bytes of a picture that is not worth fewer colours


def shades(hue: tuple[int, int, int], steps: int = STEPS) -> np.ndarray:
    """White and the shades of a sign on white, up to the strongest: [steps + 1, RGB]."""
    opacity = colours.STRONGEST * np.arange(steps + 1)[:, None] / steps
    shaded: np.ndarray = (1 - opacity) * colours.WHITE + opacity * np.array(hue)
    return shaded


RAMPS = [shades(hue) for hue in (colours.FOR, colours.AGAINST)]
GREYS = np.linspace(colours.WHITE, (28, 30, 34), 6)  # from the page to the ink of text
FIXED = np.concatenate([GREYS, *(ramp[1:] for ramp in RAMPS)]).round()  # of every picture with shaded words


def with_palette(image: Image.Image, count: int = COLOURS[0]) -> bytes:
    """A PNG with at most `count` colours, which never gives a shaded word grey or the other sign.

    The palette has greys for text and, if words are shaded, fixed shades for both signs. The rest are the picture's own
    colours: those that stand for most pixels, and furthest from each other.
    """
    pixels = np.asarray(image.convert("RGB"), dtype=np.int32) @ [1 << 16, 1 << 8, 1]
    codes, places, counts = np.unique(pixels, return_inverse=True, return_counts=True)
    unique = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], 1)
    palette, nearest = _palette(unique.astype(float), counts, count)
    few = Image.fromarray(nearest[places.ravel()].astype(np.uint8).reshape(image.height, image.width), "P")
    few.putpalette(palette.round().astype(np.uint8).ravel().tolist())
    file = BytesIO()
    few.save(file, "PNG")
    return oxipng.optimize_from_memory(file.getvalue(), level=4)


def _palette(unique: np.ndarray, counts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Colours for a palette and, for each colour of the picture, which of them stands for it."""
    on_ramps = [_on_ramp(unique, ramp) for ramp in RAMPS]
    # The largest score of a text has the strongest shade: a picture without an area of it has no shaded words.
    strong = [counts[(to_line <= NEAR) & (step >= STEPS - 1)].sum() for to_line, step in on_ramps]
    shaded = max(strong) >= WORD
    palette = list(FIXED if shaded else GREYS)
    distances = ((unique[:, None] - np.array(palette)) ** 2).sum(2)
    nearest, distance = distances.argmin(1), distances.min(1)
    for number, (to_line, step) in enumerate(on_ramps if shaded else ()):
        shade = np.where(step == 0, 0, len(GREYS) + number * STEPS + step - 1)  # step 0 is the white of the page
        nearest = np.where(to_line <= NEAR, shade, nearest)
        distance = np.where(to_line <= NEAR, 0.0, distance)
    while len(palette) < size and distance.max() > 0:
        palette.append(unique[(distance * counts).argmax()])
        to_new = ((unique - palette[-1]) ** 2).sum(1)
        nearest = np.where(to_new < distance, len(palette) - 1, nearest)
        distance = np.minimum(distance, to_new)
    return np.array(palette), nearest


def _on_ramp(unique: np.ndarray, ramp: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far each colour is from the line of a ramp, and the nearest step on it."""
    line = ramp[-1] - ramp[0]
    along = np.clip((unique - ramp[0]) @ line / (line @ line), 0, 1)
    to_line = np.sqrt(((unique - ramp[0] - along[:, None] * line) ** 2).sum(1))
    return to_line, np.rint(along * STEPS).astype(int)


def compress(picture: str) -> str:
    """A base64 PNG on white with a palette; one that has a palette stays as it is."""
    with Image.open(BytesIO(b64decode(picture))) as image:
        if image.mode == "P":
            return picture
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image.getchannel("A") if image.mode == "RGBA" else None)
    return b64encode(with_palette(flat)).decode()


def fit(notebook: Any) -> None:
    """Give the pictures of a notebook fewer colours, then fewer pixels, until it is small enough."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    outputs = [output for output in outputs if len(output.get("data", {}).get("image/png", "")) > SMALL]
    for count, scale in [*((count, 1.0) for count in COLOURS), *[(COLOURS[-1], SCALE)] * TIMES]:
        for output in sorted(outputs, key=lambda output: -len(output.data["image/png"])):
            if len(nbformat.writes(notebook).encode()) <= NOTEBOOK:
                return
            _shrink(output, count, scale)


def _shrink(output: Any, count: int, scale: float) -> None:
    """Save a picture again with fewer colours and pixels; its size on the page stays."""
    with Image.open(BytesIO(b64decode(output.data["image/png"]))) as image:
        flat = image.convert("RGB")
    if scale < 1:
        size = output.metadata.setdefault("image/png", nbformat.from_dict({}))
        size.update({"width": size.get("width", flat.width // 2), "height": size.get("height", flat.height // 2)})
        flat = flat.resize((round(flat.width * scale), round(flat.height * scale)), Image.Resampling.BOX)
    smaller = b64encode(with_palette(flat, count)).decode()
    output.data["image/png"] = min(output.data["image/png"], smaller, key=len)
