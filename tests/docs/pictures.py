"""The pictures of docs/how-it-decides.md, drawn from what `rebalancer demo` recorded: `python -m tests.docs.pictures`.

`recorded.json` holds one run of it, in seconds of its world from the service's start.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.docs.blocks import DOCS

RECORDED = Path(__file__).with_name("recorded.json")
PICTURES = DOCS / "pictures"
GPUS_EACH = 2  # of a replica of either model; the pool of the demo has 16
CHAT, CODE, GONE, INK, QUIET = "#1A82DC", "#A67D00", "#E3E6EA", "#1B222B", "#6E727A"
WIDTH, LEFT, RIGHT = 760, 60, 20


class Late(msgspec.Struct, rename="camel"):
    """As both models' outlooks had it when the first replica moved.

    `held`: replicas of each model then. `chat`, `code`: the least count of replicas, and how many requests are late
    over the next `horizon_seconds` with that many, one more, and so on.
    """

    horizon_seconds: int
    held: dict[str, int]
    chat: tuple[int, tuple[float, ...]]
    code: tuple[int, tuple[float, ...]]


class Recorded(msgspec.Struct):
    """`ready`: instant, Ready replicas of chat, of code. `moves`: instant, model, kind, replicas from and to."""

    ready: tuple[tuple[float, int, int], ...]
    moves: tuple[tuple[float, str, str, int, int], ...]
    late: Late


def pictures() -> dict[str, str]:
    """File name to SVG."""
    recorded = msgspec.json.decode(RECORDED.read_bytes(), type=Recorded)
    return {"shift.svg": _svg(320, _shift(recorded)), "worth.svg": _svg(300, _worth(recorded.late))}


def _svg(height: int, parts: Iterator[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
    head += 'font-size="13">'
    return "\n".join([head, _box(0, 0, WIDTH, height, "#FFFFFF"), *parts, "</svg>", ""])


def _shift(recorded: Recorded) -> Iterator[str]:
    """Ready GPUs of both models over time, one on the other, and under it what was released and granted when."""
    ready = recorded.ready
    begin, end = ready[0][0], ready[-1][0]
    top, bottom, most = 30, 210, GPUS_EACH * max(chat + code for _, chat, code in ready)

    def x(at: float) -> float:
        return LEFT + (at - begin) / (end - begin) * (WIDTH - LEFT - RIGHT)

    def height(gpus: float) -> float:
        return gpus / most * (bottom - top)

    yield _box(LEFT, top, WIDTH - LEFT - RIGHT, bottom - top, GONE)
    for (at, chat, code), (until, *_) in zip(ready, [*ready[1:], ready[-1]], strict=True):
        ours, theirs = height(GPUS_EACH * chat), height(GPUS_EACH * code)
        yield _box(x(at), bottom - ours, x(until) - x(at), ours, CHAT)
        yield _box(x(at), bottom - ours - theirs, x(until) - x(at), theirs, CODE)
    for gpus in range(0, most + 1, 4):
        yield _text(LEFT - 8, bottom - height(gpus) + 4, str(gpus), "end")
    yield _text(LEFT, 18, "GPUs with a Ready replica of chat (blue) and code (ochre); grey: between the two")
    for model, colour, y in (("code", CODE, 236), ("chat", CHAT, 262)):
        yield _text(LEFT - 8, y + 4, model, "end")
        yield f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="{GONE}" stroke-width="2"/>'
        for at, name, kind, *_ in recorded.moves:
            if name == model:
                d = f"M{x(at) - 5:.1f} {y + (-5 if kind == 'release' else 5)}h10l-5 {10 if kind == 'release' else -10}z"
                yield f'<path d="{d}" fill="{colour}" stroke="{INK}"/>'
    for second in range(int(begin // 20 + 1) * 20, int(end) + 1, 20):
        yield _text(x(second), 286, f"{second} s", "middle")
    yield _text(LEFT, 308, "down: a release is written; up: a grant, once the GPUs are free", colour=QUIET)


def _worth(late: Late) -> Iterator[str]:
    """Late requests with each count of replicas: what a bar is lower than the one before it is what a replica keeps."""
    held, top, bottom, wide = late.held, 50, 240, 42
    most = max(late.chat[1])
    yield _text(LEFT, 20, f"Requests that would be late in the next {late.horizon_seconds} s with so many replicas")
    for model, (least, values), colour, begin in (("chat", late.chat, CHAT, LEFT), ("code", late.code, CODE, 420)):
        for step, value in enumerate(values):
            x, high, count = begin + step * (wide + 6), value / most * (bottom - top), least + step
            yield _box(x, bottom - high, wide, max(high, 1), colour)
            yield _text(x + wide / 2, bottom - high - 6, f"{value:.0f}", "middle")
            yield _text(x + wide / 2, bottom + 18, str(count), "middle", weight="bold" if count == held[model] else "")
        here = held[model] - least
        gained, lost = values[here] - values[here + 1], values[here - 1] - values[here]
        said = f"chat has {held[model]}: one more keeps {gained:.0f} from being late"
        if model == "code":
            said = f"code has {held[model]}: one less makes {lost:.0f} late"
        yield _text(begin, bottom + 42, said)


def _box(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'


def _text(x: float, y: float, said: str, anchor: str = "start", *, colour: str = INK, weight: str = "") -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{bold}>{said}</text>'


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name, svg in pictures().items():
        (PICTURES / name).write_text(svg)
    sys.stdout.write(f"drawn: {', '.join(pictures())}\n")
