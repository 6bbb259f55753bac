"""Panels over one time axis as an SVG element whose colours are the page's, the same bytes for the same values."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from rebalancer.drawing.bins import F64, clock

INCHES_WIDE, PANEL_INCHES, EDGE_INCHES = 9.6, 1.15, 0.5
LEFT_INCHES, RIGHT_INCHES = 0.53, 0.91
TICKS_SECONDS = (10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 604_800)
INCHES_A_TICK = 0.8
ROUND_STEPS = (1, 2, 5, 10)  # 0, 50, 100 per cent rather than 0, 40, 80
# Colours that stand for the page's: each is replaced by var(--name) in the finished SVG.
MODEL_COLOURS = 8
NAMES = ("ink", "soft", "need", "first", "second", *(f"model-{index}" for index in range(MODEL_COLOURS)))
COLOUR = {name: f"#0a0b{index:02x}" for index, name in enumerate(NAMES)}


@dataclass(frozen=True, slots=True)
class Line:
    """Values over time, drawn as steps.

    values: (bins,) the value in each bin.
    colour: one of `NAMES`, for which the page's style has a colour.
    label: name of the line in the page's legend; the panel does not show it.
    dashed: whether it is drawn in dashes, which tells two lines apart without colour; an area shows no dashes.
    filled: whether it is drawn as an area down to 0; in a stacked panel each line is an area anyway.
    """

    values: F64
    colour: str
    label: str
    dashed: bool = False
    filled: bool = False


@dataclass(frozen=True, slots=True)
class LevelLine:
    """A dotted line across at one value, named at its right end; `side`: which edge of the name is at the line."""

    value: float
    label: str
    side: Literal["bottom", "center", "top"] = "center"


@dataclass(frozen=True, slots=True)
class Panel:
    """One row of a figure.

    title: heading at its upper left.
    lines: what it draws, each over those before.
    levels: dotted lines across it.
    stacked: whether the lines are areas, each on top of those before.
    unit: unit of the values, at its upper right; "" where none is to be shown.
    least: value to which the axis reaches at least.
    whole: whether the axis shows whole numbers alone.
    tall: its height as a multiple of `PANEL_INCHES`.
    """

    title: str
    lines: Sequence[Line]
    levels: Sequence[LevelLine] = ()
    stacked: bool = False
    unit: str = ""
    least: float = 1.0  # the axis goes at least this high: noise around nothing stays small
    whole: bool = False  # only whole numbers on the axis
    tall: float = field(default=1.0)


def draw(  # noqa: PLR0913  # what a drawing is made of
    name: str,
    panels: Sequence[Panel],
    begins: F64,
    seconds: int,
    inches_wide: float = INCHES_WIDE,
    instant: Callable[[float], str] = clock,
) -> str:
    """An `svg` element without width and height, drawn as if it were so wide; its ids begin with `name`.

    `instant`: how a second since the beginning is written below the axis.
    """
    heights = [panel.tall * PANEL_INCHES for panel in panels]
    high = sum(heights) + EDGE_INCHES + 0.28 * len(panels)
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9.0, "axes.linewidth": 0.6}):
        figure = Figure(figsize=(inches_wide, high))
        figure.patch.set_alpha(0.0)
        FigureCanvasSVG(figure)
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        for panel, axis in zip(panels, axes, strict=True):
            _panel(panel, axis, begins, seconds)
        _time(axes[-1], seconds, inches_wide, instant)
        below = (EDGE_INCHES - 0.12) / high
        gap = 0.28 * len(panels) / sum(heights)
        left, right = LEFT_INCHES / inches_wide, 1 - RIGHT_INCHES / inches_wide
        figure.subplots_adjust(left=left, right=right, bottom=below, top=1 - 0.26 / high, hspace=gap * 1.05)
        text = StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", metadata=nothing, transparent=True)
    return _themed(text.getvalue(), name)


def _panel(panel: Panel, axis: Axes, begins: F64, seconds: int) -> None:
    axis.set_title(panel.title, loc="left", fontsize=9.5, color=COLOUR["ink"], pad=4)
    if panel.unit:
        axis.set_title(panel.unit, loc="right", fontsize=8.5, color=COLOUR["ink"], pad=4)
    edges = np.append(begins, seconds)
    floor = np.zeros(len(begins))
    for line in panel.lines:
        top = floor + line.values if panel.stacked else line.values
        _line(line, axis, edges, top, floor if panel.stacked else None)
        floor = top if panel.stacked else floor
    for level in panel.levels:
        axis.axhline(level.value, color=COLOUR["ink"], linewidth=0.8, linestyle=(0, (1, 2)))
        axis.text(
            1.006,
            level.value,
            level.label,
            transform=axis.get_yaxis_transform(),
            verticalalignment=level.side,
            fontsize=8,
            color=COLOUR["ink"],
        )
    high = max([panel.least, *(each.value for each in panel.levels), *_tops(panel, floor)])
    axis.set_ylim(0.0, high * 1.08)
    axis.set_xlim(0, seconds)
    axis.yaxis.set_major_locator(_ticks(panel))
    axis.tick_params(colors=COLOUR["ink"], width=0.6, length=3, labelsize=8)
    axis.grid(axis="y", color=COLOUR["soft"], linewidth=0.6)
    axis.set_axisbelow(True)
    for side, spine in axis.spines.items():
        spine.set_color(COLOUR["soft"])
        spine.set_visible(side == "bottom")


def _ticks(panel: Panel) -> MaxNLocator:
    return MaxNLocator(3, integer=True) if panel.whole else MaxNLocator(4, steps=ROUND_STEPS)


def _tops(panel: Panel, stack: F64) -> list[float]:
    return [float(stack.max())] if panel.stacked else [float(line.values.max()) for line in panel.lines]


def _line(line: Line, axis: Axes, edges: F64, top: F64, floor: F64 | None) -> None:
    colour = COLOUR[line.colour]
    if floor is not None or line.filled:
        below: F64 | float = 0.0 if floor is None else floor
        axis.stairs(top, edges, baseline=below, fill=True, color=colour, alpha=1.0, linewidth=0)
    else:
        axis.stairs(
            top, edges, baseline=None, color=colour, linewidth=1.5, linestyle=(0, (4, 1.6)) if line.dashed else "-"
        )


def _time(axis: Axes, seconds: int, inches_wide: float, instant: Callable[[float], str]) -> None:
    most = inches_wide / INCHES_A_TICK
    step = next((each for each in TICKS_SECONDS if seconds <= each * most), TICKS_SECONDS[-1])
    axis.xaxis.set_major_locator(MultipleLocator(step))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: instant(value)))


def _themed(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", svg)
    svg = re.sub(r"font-family: [^;\"]+;? ?", "", svg)
    for colour in re.findall(r"#0a0b[0-9a-f]{2}", svg):
        svg = svg.replace(colour, f"var(--{NAMES[int(colour[-2:], 16)]})")
    svg = re.sub(r'(?<= id=")', f"{name}-", svg)
    return re.sub(r'(xlink:href="#|url\(#)', rf"\1{name}-", svg)
