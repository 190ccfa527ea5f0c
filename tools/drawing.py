"""A small picture in SVG: boxes, arrows and words, readable by day and by night.

It has no scripts, no fonts of its own and nothing from elsewhere. Colours are a few classes, which
change with the reader's `prefers-color-scheme`, as the pages around it do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

STYLE = """
text { font: 14px ui-sans-serif, system-ui, sans-serif; fill: #1f2933; }
.code { font-family: ui-monospace, monospace; font-size: 13px; }
.soft { fill: #52606d; }
.bold { font-weight: 600; }
.good { fill: #1b6e3c; } .bad { fill: #b3261e; }
.line { stroke: #52606d; stroke-width: 1.5; fill: none; }
.dashed { stroke: #b3261e; stroke-width: 1.5; stroke-dasharray: 5 4; fill: none; }
.box { fill: #f3f5f7; stroke: #52606d; stroke-width: 1.2; }
.clean { fill: #cfe8d6; stroke: #52606d; stroke-width: 1.2; }
.wrong { fill: #f8d7d4; stroke: #52606d; stroke-width: 1.2; }
.head { fill: #52606d; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb; }
  .soft { fill: #9fb0c0; }
  .good { fill: #7fd19b; } .bad { fill: #ff9b92; }
  .line { stroke: #9fb0c0; }
  .dashed { stroke: #ff9b92; }
  .box { fill: #2b333c; stroke: #9fb0c0; }
  .clean { fill: #21492f; stroke: #9fb0c0; }
  .wrong { fill: #5a2723; stroke: #9fb0c0; }
  .head { fill: #9fb0c0; }
}
"""


@dataclass(slots=True)
class Drawing:
    title: str  # for those who hear the page
    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        attributes = f' class="{kind}"' if kind else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{attributes}>{escape(words)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, *words: str, kind: str = "box",
        code: bool = False,
    ) -> None:  # fmt: skip
        """With words in its middle, a line each."""
        size = f'width="{width:g}" height="{height:g}"'
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" {size} rx="5" class="{kind}"/>')
        top = y + height / 2 - 9 * len(words) + 14
        for number, line in enumerate(words):
            style = "code" if code else ("bold" if number == 0 and len(words) > 1 else "")
            self.text(x + width / 2, top + 18 * number, line, style, "middle")

    def line(self, *points: tuple[float, float], kind: str = "line") -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" class="{kind}"/>')

    def arrow(self, *points: tuple[float, float]) -> None:
        """Along these points; the head is at the last."""
        (x1, y1), (x2, y2) = points[-2:]
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        back_x, back_y = x2 - 9 * dx, y2 - 9 * dy
        self.line(*points[:-1], (back_x, back_y))
        left = f"{back_x - 4.5 * dy:g},{back_y + 4.5 * dx:g}"
        right = f"{back_x + 4.5 * dy:g},{back_y - 4.5 * dx:g}"
        self.parts.append(f'<polygon points="{x2:g},{y2:g} {left} {right}" class="head"/>')

    def svg(self) -> str:
        size = f'width="{self.width}" height="{self.height}"'
        view = f'viewBox="0 0 {self.width} {self.height}"'
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" {view} {size} role="img">',
            f"<title>{escape(self.title)}</title>",
            f"<style>{STYLE}</style>",
            *self.parts,
            "</svg>\n",
        ])  # fmt: skip
