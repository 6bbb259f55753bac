"""A helper: every pod of every model tells of its last second, each second, until the end.

python -m tests.bench.flood BOOTSTRAP MODELS

A model's number on its stdin: from now on the model is busier. Last line: records per second that it spoke.
"""

import sys
import threading
import time

from tests.bench.children import say
from tests.bench.voices import Voice, second_of

STEP_SECONDS = 0.01
LATE_SECONDS = 0.5
LOOK_EVERY = 200  # records


def main() -> None:
    """Speak until the end."""
    bootstrap, models = sys.argv[1:]
    ended = threading.Event()
    busier: set[int] = set()
    threading.Thread(target=_listen, args=(busier, ended), daemon=True).start()
    say(f"{_speak(Voice(bootstrap), int(models), busier, ended):.0f}")


def _listen(busier: set[int], ended: threading.Event) -> None:
    for line in sys.stdin:
        busier.add(int(line))
    ended.set()


def _speak(voice: Voice, models: int, busier: set[int], ended: threading.Event) -> float:
    """Records per second. A second that cannot be spoken in time is cut short: late samples would be other ones."""
    began, said = time.time(), 0
    second = began
    while True:
        for record in second_of(models, second, busier):
            now = time.time()
            ahead = record.timestamp_ms / 1000 - now
            if ahead > STEP_SECONDS or not said % LOOK_EVERY:
                voice.poll()
                if ended.wait(max(0.0, ahead)):
                    return said / (now - began)
            elif ahead < -LATE_SECONDS:
                break
            voice.say(record)
            said += 1
        second = max(second + 1.0, time.time() - LATE_SECONDS)


if __name__ == "__main__":
    main()
