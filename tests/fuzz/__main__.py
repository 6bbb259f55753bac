"""A page of what spoiled records did to each decoder; the exit code is the number of those that broke one."""

import argparse
import sys

import structlog

from tests.fuzz.decoders import DECODERS
from tests.fuzz.plays import play


def main() -> int:
    """Play, and print one line per decoder, then each kind of break with its record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="per decoder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="the decoder of that name")
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    broken = 0
    for decoder in DECODERS:
        if args.only in {"", decoder.name}:
            played = play(decoder, args.cases, args.seed)
            broken += len(played.broke) + len(played.slow)
            sys.stdout.write(
                f"{decoder.name:24} {played.cases:>9,} records, {len(played.broke)} broke it, {len(played.slow)} slow\n"
            )
            for record, why in {why: (record, why) for record, why in played.broke}.values():
                sys.stdout.write(f"    {why}\n    {record[:2000]!r}\n")
            for record, seconds in played.slow:
                sys.stdout.write(f"    {seconds:.2f} s\n    {record[:2000]!r}\n")
    return broken


if __name__ == "__main__":
    sys.exit(min(main(), 100))
