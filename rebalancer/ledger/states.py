"""The words of the ledger: every GPU-second of a pool is exactly one of these."""

OWNED_BUSY = "owned-busy"  # under a Ready replica that is its model's own, as far as offered work keeps it busy
OWNED_IDLE = "owned-idle"  # ... and the rest of it
BORROWED = "borrowed"  # under a Ready replica beyond its model's entitlement: the borrower's side, which counts
LOADING = "loading"  # under a replica that has a node and is not Ready yet
TERMINATING = "terminating"  # under a replica whose deletion was requested
DOOMED = "doomed"  # on a node that is gone, or whose notice has come to its time; without a model where nobody held it
FOREIGN = "foreign"  # requested by pods of no model
FREE = "free"  # held by nobody
WARM = "warm"  # under placeholders, which give way to any replica: free, and kept so on purpose
UNKNOWN = "unknown"  # nobody looked, or what was seen does not say it; never guessed as idle

STATES = (OWNED_BUSY, OWNED_IDLE, BORROWED, LOADING, TERMINATING, DOOMED, FOREIGN, FREE, WARM, UNKNOWN)
HELD = (OWNED_BUSY, OWNED_IDLE, BORROWED, LOADING, TERMINATING)  # by a model, on a node that stays

# The owner's side of `borrowed`. It is the same GPU-second seen from the other end, so it is in no sum.
LENT = "lent"
