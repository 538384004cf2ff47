"""A drawing of lines, boxes, dots and words, written as SVG or PNG."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, assert_never
from xml.sax.saxutils import escape

from hetir.diagnostics import HetirError

if TYPE_CHECKING:
    from PIL import ImageDraw, ImageFont

_FONT = "Helvetica, Arial, sans-serif"
# sharp, so that boxes side by side leave no seam, and felt by the pointer though unfilled
_BOX = 'shape-rendering="crispEdges" pointer-events="all"'
_PNG_SCALE = 2
# drawn larger and shrunk, which smooths what Pillow draws with hard edges
_PNG_OVERSAMPLE = 3


class PictureError(HetirError):
    """A picture cannot be written.

    Cause: an unknown suffix, or PNG without Pillow. Fix: end the name in .html or .svg.
    """

    code = "HET410"


@dataclass(frozen=True, slots=True, kw_only=True)
class Path2D:
    """A line through `points`."""

    points: tuple[tuple[float, float], ...]
    color: str
    width: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A filled box; `tip` is shown where the reader points at it (SVG)."""

    x: float
    y: float
    width: float
    height: float
    color: str
    tip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A filled circle with a white rim."""

    x: float
    y: float
    radius: float
    color: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A line of text whose `anchor` (start, middle, end) is at `x` and whose baseline is at `y`."""

    x: float
    y: float
    text: str
    size: float = 12.0
    anchor: str = "start"
    color: str = "#333333"
    bold: bool = False


Shape = Path2D | Box | Dot | Words


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Shapes in the order of drawing, on white."""

    width: int
    height: int
    shapes: tuple[Shape, ...]


def svg(drawing: Drawing) -> str:
    """The drawing as one self-contained SVG element."""
    size = f'width="{drawing.width}" height="{drawing.height}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {drawing.width} {drawing.height}" font-family="{_FONT}">'
    )
    background = f'<rect {size} fill="#ffffff"/>'
    return "\n".join([head, background, *(_element(s) for s in drawing.shapes), "</svg>\n"])


def _element(shape: Shape) -> str:
    match shape:
        case Path2D():
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
            style = f'stroke="{shape.color}" stroke-width="{shape.width:g}"'
            return f'<polyline points="{points}" fill="none" {style}/>'
        case Box():
            at = f'x="{shape.x:.1f}" y="{shape.y:.1f}"'
            size = f'width="{shape.width:.1f}" height="{shape.height:.1f}"'
            tip = f"<title>{escape(shape.tip)}</title>" if shape.tip else ""
            return f'<rect {at} {size} fill="{shape.color}" {_BOX}>{tip}</rect>'
        case Dot():
            at = f'cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius:g}"'
            return f'<circle {at} fill="{shape.color}" stroke="#ffffff" stroke-width="1.5"/>'
        case Words():
            weight = ' font-weight="bold"' if shape.bold else ""
            at = f'x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}"'
            style = f'font-size="{shape.size:g}" fill="{shape.color}"{weight}'
            return f"<text {at} {style}>{escape(shape.text)}</text>"
        case _:
            assert_never(shape)


def write_png(drawing: Drawing, path: Path) -> None:
    """The drawing as a PNG of twice its size. Raises PictureError without Pillow."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise PictureError(
            "a PNG needs Pillow, which is not installed",
            hint="pip install 'hetir[plot]', or write .svg or .html, which need nothing",
        ) from None
    scale = _PNG_SCALE * _PNG_OVERSAMPLE
    image = Image.new("RGB", (drawing.width * scale, drawing.height * scale), "#ffffff")
    pen = ImageDraw.Draw(image)
    for shape in drawing.shapes:
        font = ImageFont.load_default(size=shape.size * scale) if isinstance(shape, Words) else None
        _stroke(pen, shape, scale, font)
    small = (drawing.width * _PNG_SCALE, drawing.height * _PNG_SCALE)
    image.resize(small, Image.Resampling.LANCZOS).save(path)


def _stroke(
    pen: ImageDraw.ImageDraw,
    shape: Shape,
    scale: int,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont | None,
) -> None:
    match shape:
        case Path2D():
            points = [(x * scale, y * scale) for x, y in shape.points]
            pen.line(points, fill=shape.color, width=round(shape.width * scale), joint="curve")
        case Box():
            # Pillow has no tips, so what is only there for one is left out
            x, y = shape.x * scale, shape.y * scale
            if shape.color != "none":
                pen.rectangle(
                    (x, y, x + shape.width * scale, y + shape.height * scale), shape.color
                )
        case Dot():
            for radius, color in ((shape.radius + 1.5, "#ffffff"), (shape.radius, shape.color)):
                x, y, r = shape.x * scale, shape.y * scale, radius * scale
                pen.ellipse((x - r, y - r, x + r, y + r), fill=color)
        case Words():
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
            at = (shape.x * scale, shape.y * scale)
            rim = scale // 4 if shape.bold else 0
            pen.text(at, shape.text, shape.color, font, anchor, stroke_width=rim)
        case _:
            assert_never(shape)
