"""The rebalancer: moves GPU capacity between served models in Kubernetes."""

__version__ = "0.1.0"
