"""Leaves out what the service would log: in a million steps it has much to say."""

import logging

import structlog


def be_quiet() -> None:
    """For this process."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
