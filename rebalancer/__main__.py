"""`python -m rebalancer` is the command `rebalancer`, also where its script is not on the PATH."""

import sys

from rebalancer.cli import main

if __name__ == "__main__":
    sys.exit(main())
