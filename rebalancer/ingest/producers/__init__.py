"""Records of stock producers: a decoder makes series of them, a mapping readings of series, a gathering samples.

A series is a name, labels and a number, whoever sent it. `decoders` has one function per format, all of one shape;
`mapping` says by the policy which series is which gauge of which pod; `gathering` puts the readings of one pod and
instant together, for a producer sends them in several records.
"""
