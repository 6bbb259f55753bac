"""Prometheus' past: asked for in pieces, read pod by pod, summed up by model."""
