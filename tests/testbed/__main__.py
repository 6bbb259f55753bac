"""`python -m tests.testbed [pieces...]`: start the stack, say where it is, stay until Ctrl-C."""

import argparse
import signal
import sys
import time
from pathlib import Path

from tests.testbed.build import BuildFailed, Missing
from tests.testbed.control_plane import Timing
from tests.testbed.process import Failed
from tests.testbed.stack import PIECES, Stack


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    timing = Timing(hpa_sync_seconds=arguments.hpa_sync_seconds)
    try:
        with Stack(arguments.folder, timing=timing) as stack:
            _start(stack, arguments.pieces)
            signal.pause()
    except (Missing, BuildFailed, Failed) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _start(stack: Stack, pieces: list[str]) -> None:
    for piece in pieces:
        started = time.monotonic()
        stack.start(piece)
        print(f"testbed: {piece} up after {time.monotonic() - started:.1f} s", file=sys.stderr)
    if any(piece != "kafka" for piece in pieces):
        print(f"export KUBECONFIG={stack.kubeconfig()}")
    if "kafka" in pieces:
        print(f"export KAFKA_BOOTSTRAP={stack.kafka.bootstrap}")
    sys.stdout.flush()
    print(f"testbed: logs in {stack.folder / 'logs'}; Ctrl-C ends it", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description=__doc__)
    parser.add_argument("pieces", nargs="*", default=list(PIECES), help=f"of {', '.join(PIECES)}; default: all")
    parser.add_argument("--folder", type=Path, help="keep data and logs here (default: a temporary folder)")
    parser.add_argument("--hpa-sync-seconds", type=float, default=Timing().hpa_sync_seconds)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
