"""The pictures of the pages, drawn from data where they show data: `python -m tests.docs.pictures`.

`recorded.json` holds what a run of `rebalancer demo` recorded (`tests.docs.record`), in seconds of its world;
`value.svg` has the table of docs/benchmarks.md. They are 420 units wide with letters of 12, so that a telephone's 380
pixels show letters of 11, and bring their own ground, so that they read the same on a light page and on a dark one.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.docs.blocks import DOCS

RECORDED = Path(__file__).with_name("recorded.json")
PICTURES = DOCS / "pictures"
GPUS_EACH = 2  # of a replica of either model; the pool of the demo has 16
CHAT, CODE, GONE, INK, QUIET = "#1A82DC", "#A67D00", "#E3E6EA", "#1B222B", "#5B626B"
WIDTH, LEFT, RIGHT = 420, 30, 14
SHOWN_WIDE = 640  # pixels, where there are as many


class Late(msgspec.Struct, rename="camel"):
    """As both models' outlooks had it when the first replica moved.

    `held`: replicas of each model then. `chat`, `code`: the least count of replicas, and what it costs over the next
    `horizon_seconds`, in late requests, to have that many, one more, and so on.
    """

    horizon_seconds: int
    held: dict[str, int]
    chat: tuple[int, tuple[float, ...]]
    code: tuple[int, tuple[float, ...]]


class Notice(msgspec.Struct):
    """Seconds from a notice until what it led to; `end`: the node is gone. `replicas`: that were on the node."""

    asked: float
    evicted: float
    ready: float
    end: float
    replicas: int


class Recorded(msgspec.Struct):
    """`ready`: instant, Ready replicas of chat, of code. `moves`: instant, model, kind, replicas from and to."""

    ready: tuple[tuple[float, int, int], ...]
    moves: tuple[tuple[float, str, str, int, int], ...]
    late: Late
    notice: Notice


def recorded() -> Recorded:
    """The recorded run of the demo."""
    return msgspec.json.decode(RECORDED.read_bytes(), type=Recorded)


def pictures() -> dict[str, str]:
    """File name to SVG."""
    run = recorded()
    return {
        "architecture.svg": _svg(330, _architecture()),
        "notice.svg": _svg(190, _notice(run.notice)),
        "shift.svg": _svg(332, _shift(run)),
        "value.svg": _svg(330, _value()),
        "worth.svg": _svg(330, _worth(run.late)),
    }


def families() -> list[tuple[str, float, float, str]]:
    """Family, late % of the service, late % of its best peer and that peer's name, as docs/benchmarks.md has them."""
    rows = re.findall(
        r"^\| `([a-z-]+)` \| \**([\d.]+)\** \| \**([\d.]+)\**, (\w+) \|",
        (DOCS / "benchmarks.md").read_text(),
        re.MULTILINE,
    )
    return [(family, float(ours), float(best), peer) for family, ours, best, peer in rows]


def _svg(height: int, parts: Iterator[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{SHOWN_WIDE}" '
    head += 'font-family="sans-serif" font-size="12">'
    return "\n".join([head, _box(0, 0, WIDTH, height, "#FFFFFF"), *parts, "</svg>", ""])


def _architecture() -> Iterator[str]:
    """Who tells the service what, and what it writes."""
    for x, wide, title, lines in (
        (12, 118, "Kafka", ("metric samples", "notices of clouds")),
        (151, 118, "Kubernetes", ("pods, nodes", "autoscalers")),
        (290, 118, "you", ("policy, overrides", "the red button")),
    ):
        yield _frame(x, 12, wide, 66)
        yield _text(x + wide / 2, 32, title, "middle", weight="bold")
        yield from (_text(x + wide / 2, 51 + 16 * at, line, "middle") for at, line in enumerate(lines))
        yield _arrow(x + wide / 2, 80, 104)
    yield _box(12, 108, 396, 78, CHAT)
    yield _text(WIDTH / 2, 128, "rebalancer", "middle", colour="#FFFFFF", weight="bold")
    for at, line in enumerate(
        (
            "sees all models and all GPUs at once,",
            "plans: who gains most, who can spare",
            "one gate writes, floors checked twice",
        )
    ):
        yield _text(WIDTH / 2, 146 + 16 * at, line, "middle", colour="#FFFFFF")
    for x, wide, title, lines in (
        (12, 118, "KEDA, HPA", ("bounds: min,", "max")),
        (151, 118, "Deployments", ("replicas, where no", "autoscaler is")),
        (290, 118, "Karpenter", ("limits of", "NodePools")),
    ):
        yield _arrow(x + wide / 2, 188, 212)
        yield _frame(x, 216, wide, 66)
        yield _text(x + wide / 2, 236, title, "middle", weight="bold")
        yield from (_text(x + wide / 2, 255 + 16 * at, line, "middle") for at, line in enumerate(lines))
    yield _text(WIDTH / 2, 302, "They start and end the pods, as before. It starts none,", "middle", colour=QUIET)
    yield _text(WIDTH / 2, 318, "and hands back what it changed.", "middle", colour=QUIET)


def _notice(notice: Notice) -> Iterator[str]:
    """One notice on a line of time."""

    def x(at: float) -> float:
        return LEFT + at / notice.end * (WIDTH - LEFT - RIGHT - 20)

    yield _text(12, 20, f"A spot notice: {notice.replicas} replicas of image, {notice.end:.0f} s to go", weight="bold")
    yield _box(x(0), 66, x(notice.evicted) - x(0), 16, CODE)
    yield _box(x(notice.evicted), 66, x(notice.ready) - x(notice.evicted), 16, GONE)
    yield _box(x(notice.ready), 66, x(notice.end) - x(notice.ready), 16, CHAT)
    for at, y, said in (
        (notice.asked, 42, f"{notice.asked:.1f} s: {notice.replicas} replacements asked for"),
        (notice.evicted, 58, f"{notice.evicted:.1f} s: Karpenter evicts the old ones"),
    ):
        yield _text(x(at) + 6, y, said)
        yield f'<path d="M{x(at):.1f} {y - 9}V66" stroke="{INK}"/>'
    yield _text(x(notice.ready), 100, f"{notice.ready:.0f} s: new ones serve, on another node")
    yield f'<path d="M{x(notice.ready):.1f} 82v8" stroke="{INK}"/>'
    yield _text(x(notice.end), 116, f"{notice.end:.0f} s: the node goes", "end")
    yield f'<path d="M{x(notice.end):.1f} 82v24" stroke="{INK}"/>'
    for y, colour, said in (
        (128, GONE, "nobody serves: a node comes and an engine loads"),
        (146, CHAT, f"they serve, {notice.end - notice.ready:.0f} s before its deadline"),
    ):
        yield _box(12, y, 12, 12, colour)
        yield _text(30, y + 10, said)
    yield _text(12, 180, "As a run of make demo recorded it; its clock runs 4x.", colour=QUIET)


def _shift(run: Recorded) -> Iterator[str]:
    """Ready GPUs of both models over time, one on the other, and under it what was released and granted when."""
    ready = run.ready
    begin, end = ready[0][0], ready[-1][0]
    left, top, bottom, most = 44, 46, 206, GPUS_EACH * max(chat + code for _, chat, code in ready)

    def x(at: float) -> float:
        return left + (at - begin) / (end - begin) * (WIDTH - left - RIGHT)

    def height(gpus: float) -> float:
        return gpus / most * (bottom - top)

    yield _box(left, top, WIDTH - left - RIGHT, bottom - top, GONE)
    for (at, chat, code), (until, *_) in zip(ready, [*ready[1:], ready[-1]], strict=True):
        ours, theirs = height(GPUS_EACH * chat), height(GPUS_EACH * code)
        yield _box(x(at), bottom - ours, x(until) - x(at), ours, CHAT)
        yield _box(x(at), bottom - ours - theirs, x(until) - x(at), theirs, CODE)
    for gpus in range(0, most + 1, 4):
        yield _text(left - 8, bottom - height(gpus) + 4, str(gpus), "end")
    yield _text(12, 18, "GPUs that serve: chat (blue), code (ochre);", weight="bold")
    yield _text(12, 36, "grey: on the way between the two")
    for model, colour, y in (("code", CODE, 232), ("chat", CHAT, 258)):
        yield _text(left - 8, y + 4, model, "end")
        yield f'<path d="M{left} {y}H{WIDTH - RIGHT}" stroke="{GONE}" stroke-width="2"/>'
        for at, name, kind, *_ in run.moves:
            if name == model:
                d = f"M{x(at) - 5:.1f} {y + (-5 if kind == 'release' else 5)}h10l-5 {10 if kind == 'release' else -10}z"
                yield f'<path d="{d}" fill="{colour}" stroke="{INK}"/>'
    for second in range(int(begin // 20 + 1) * 20, int(end) + 1, 20):
        yield _text(x(second), 284, f"{second} s", "middle")
    yield _text(12, 306, "down: a release is written", colour=QUIET)
    yield _text(12, 322, "up: a grant, once the GPUs are free", colour=QUIET)


def _worth(late: Late) -> Iterator[str]:
    """What each count of replicas costs: what a bar is lower than the one before it is what that replica saves."""
    held, top, bottom, wide = late.held, 72, 240, 27
    most = max(late.chat[1])
    yield _text(12, 18, f"What replicas cost in the next {late.horizon_seconds} s, in late requests,", weight="bold")
    yield _text(12, 36, "by how many a model has (bold: now)", weight="bold")
    for model, (least, values), colour, begin in (("chat", late.chat, CHAT, 12), ("code", late.code, CODE, 222)):
        for step, value in enumerate(values):
            x, high, count = begin + step * (wide + 5), value / most * (bottom - top), least + step
            yield _box(x, bottom - high, wide, max(high, 1), colour)
            yield _text(x + wide / 2, bottom - high - 6, f"{value:.0f}", "middle")
            yield _text(x + wide / 2, bottom + 18, str(count), "middle", weight="bold" if count == held[model] else "")
        here = held[model] - least
        gained, lost = values[here] - values[here + 1], values[here - 1] - values[here]
        said = ("one more saves", f"{gained:.0f}") if model == "chat" else ("one less costs", f"{lost:.0f}")
        for at, line in enumerate((f"{model} has {held[model]}:", *said)):
            yield _text(begin, bottom + 44 + 17 * at, line, weight="" if at else "bold")


def _value() -> Iterator[str]:
    """Late requests by shape of traffic, the service beside the best of its peers."""
    rows = families()
    most = max(value for _, ours, best, _ in rows for value in (ours, best))
    left, top = 104, 52
    yield _text(12, 18, "Late requests, %, by shape of traffic", weight="bold")
    yield _box(12, 28, 12, 10, CHAT)
    yield _text(28, 37, "rebalancer")
    yield _box(104, 28, 12, 10, CODE)
    yield _text(120, 37, "the best tuned HPA, KEDA, APA or WVA")
    for at, (family, ours, best, peer) in enumerate(rows):
        y = top + at * 32
        yield _text(left - 8, y + 15, family, "end")
        for value, colour, shift, said in ((ours, CHAT, 0, f"{ours:g}"), (best, CODE, 11, f"{best:g} {peer}")):
            long = value / most * (WIDTH - left - 80)
            yield _box(left, y + shift, max(long, 1), 10, colour)
            yield _text(left + long + 5, y + shift + 9, said, size=10)
    yield _text(12, 322, "Fifty generated worlds each: docs/benchmarks.md", colour=QUIET)


def _arrow(x: float, top: float, tip: float) -> str:
    return f'<path d="M{x:.1f} {top}V{tip}m-4 -6l4 6l4 -6" fill="none" stroke="{INK}" stroke-width="1.5"/>'


def _frame(x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" fill="{GONE}" '
        f'stroke="{QUIET}"/>'
    )


def _box(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'


def _text(
    x: float, y: float, said: str, anchor: str = "start", *, colour: str = INK, weight: str = "", size: int = 0
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    small = f' font-size="{size}"' if size else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{bold}{small}>{said}</text>'


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name, svg in pictures().items():
        (PICTURES / name).write_text(svg)
    sys.stdout.write(f"drawn: {', '.join(pictures())}\n")
