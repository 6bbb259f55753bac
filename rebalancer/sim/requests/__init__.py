"""Faro's world, request by request: ResNet-34 behind Ray Serve (DOI 10.1145/3689031.3696071).

Every request is drawn before the run (`arrivals`), lives through a router, a queue and a replica (`head`, compiled),
under whatever controller moves the replicas (`world`); `minutes` says what its minute was worth, `fluid` estimates the
same on the fast path, `scenarios` builds both.
"""
