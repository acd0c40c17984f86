"""Small PNG files: palettes that keep the colours of areas exactly, and notebooks whose pictures fit into a size."""

from base64 import b64decode, b64encode
from io import BytesIO
from typing import Any

import nbformat
import numpy as np
import oxipng
from PIL import Image

NOTEBOOK = 1_500_000  # bytes of a notebook file, at most
COLOURS = (128, 64, 32, 24)  # tried in this order until a notebook is small enough
SCALE = 0.75  # of the pixels of a picture that is drawn at twice its size, if fewer colours are not enough
TIMES = 2  # that pictures are scaled at most
SMALL = 20_000  # bytes of a picture that is not worth fewer colours


def with_palette(image: Image.Image, colours: int = COLOURS[0]) -> bytes:
    """A PNG with at most so many colours: those that stand for most pixels, and furthest from each other."""
    pixels = np.asarray(image.convert("RGB"), dtype=np.int32) @ [1 << 16, 1 << 8, 1]
    codes, places, counts = np.unique(pixels, return_inverse=True, return_counts=True)
    unique = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], 1)
    palette, nearest = _palette(unique.astype(float), counts, colours)
    few = Image.fromarray(nearest[places.ravel()].astype(np.uint8).reshape(image.height, image.width), "P")
    few.putpalette(palette.round().astype(np.uint8).ravel().tolist())
    file = BytesIO()
    few.save(file, "PNG")
    return oxipng.optimize_from_memory(file.getvalue(), level=4)


def _palette(unique: np.ndarray, counts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Colours for a palette and, for each colour of the picture, which of them is nearest."""
    chosen = [int(counts.argmax())]
    distance = ((unique - unique[chosen[0]]) ** 2).sum(1)
    nearest = np.zeros(len(unique), int)
    while len(chosen) < min(size, len(unique)):
        chosen.append(int((distance * counts).argmax()))
        to_new = ((unique - unique[chosen[-1]]) ** 2).sum(1)
        nearest = np.where(to_new < distance, len(chosen) - 1, nearest)
        distance = np.minimum(distance, to_new)
    return unique[chosen], nearest


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
    for colours, scale in [*((colours, 1.0) for colours in COLOURS), *[(COLOURS[-1], SCALE)] * TIMES]:
        for output in sorted(outputs, key=lambda output: -len(output.data["image/png"])):
            if len(nbformat.writes(notebook).encode()) <= NOTEBOOK:
                return
            _shrink(output, colours, scale)


def _shrink(output: Any, colours: int, scale: float) -> None:
    """Save a picture again with fewer colours and pixels; its size on the page stays."""
    with Image.open(BytesIO(b64decode(output.data["image/png"]))) as image:
        flat = image.convert("RGB")
    if scale < 1:
        size = output.metadata.setdefault("image/png", nbformat.from_dict({}))
        size.update({"width": size.get("width", flat.width // 2), "height": size.get("height", flat.height // 2)})
        flat = flat.resize((round(flat.width * scale), round(flat.height * scale)), Image.Resampling.BOX)
    smaller = b64encode(with_palette(flat, colours)).decode()
    output.data["image/png"] = min(output.data["image/png"], smaller, key=len)
