"""What pages are made of: bins, instants, colours that can be told apart, an axis in the words of its page."""

import re

import numpy as np
import pytest

from rebalancer.drawing.bins import Bins, bins, clock
from rebalancer.drawing.panels import Line, Panel, draw
from rebalancer.drawing.style import STYLE


def test_lines_and_areas_can_be_told_from_the_page_in_both_themes() -> None:
    light, dark = STYLE.split("@media", 1)
    for theme in (light, dark.split("} }")[0]):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9A-F]{6})", theme))
        behind = _luminance(colours["page"])
        for name in ("first", "second", *(f"model-{index}" for index in range(8))):
            over, under = sorted((behind, _luminance(colours[name])), reverse=True)
            assert (over + 0.05) / (under + 0.05) >= 3.0, name


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_bins_keep_sums_means_and_peaks() -> None:
    values = np.arange(10.0)
    pieces = Bins(10, 4)
    assert pieces.begins.tolist() == [0, 4, 8]
    assert pieces.sums(values).tolist() == [6, 22, 17]
    assert pieces.means(values).tolist() == [1.5, 5.5, 8.5]
    assert pieces.peaks(values).tolist() == [3, 7, 9]


@pytest.mark.parametrize(
    ("seconds", "most", "width"), [(360, 360, 1), (7200, 360, 30), (86_400, 360, 300), (86_400, 24, 3600)]
)
def test_bins_are_of_a_width_that_a_person_would_choose(seconds: int, most: int, width: int) -> None:
    assert bins(seconds, most) == Bins(seconds, width)
    assert len(bins(seconds, most).begins) <= most


def test_times_are_hours_and_minutes() -> None:
    assert [clock(each) for each in (0, 3900, 86_400, 90)] == ["0:00", "1:05", "24:00", "0:01:30"]


def test_an_axis_is_written_in_the_words_of_its_page() -> None:
    pieces = bins(600, 60)
    panel = Panel("x", [Line(np.ones(len(pieces.begins)), "first", "x")])
    assert "second 60" in draw("x", [panel], pieces.begins, 600, instant=lambda second: f"second {second:.0f}")


def test_on_paper_a_page_is_light_whatever_the_screen_is() -> None:
    assert "@media screen and (prefers-color-scheme: dark)" in STYLE
    assert "@media print { :root { color-scheme: light; }" in STYLE
