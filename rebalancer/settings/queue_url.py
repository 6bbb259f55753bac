"""What the settings of the queue of notices must say together."""

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rebalancer.settings.kafka_login import HOSTS_HERE

if TYPE_CHECKING:
    from rebalancer.settings.service import ServiceSettings

PATH = re.compile(r"/\d{12}/[A-Za-z0-9_-]{1,80}(\.fifo)?")
# sqs.REGION.amazonaws.com, ID.sqs.REGION.vpce.amazonaws.com, sqs.REGION.api.aws
REGION = re.compile(r"(?:^|\.)sqs(?:-fips)?\.([a-z]{2,}(?:-[a-z]+)+-\d+)\.")


def region_of(url: str) -> str:
    """The region that the URL's host names; "" where it names none."""
    named = REGION.search(urlsplit(url).hostname or "")
    return named[1] if named else ""


def queue_problem(settings: "ServiceSettings", prefix: str) -> str | None:
    """What is wrong, in a sentence with the variables' names; None when nothing is."""
    url = settings.notices_queue_url
    if not settings.kafka_enabled:
        return f"{prefix}NOTICES_QUEUE_URL={url} would be emptied into Kafka, which is off: leave it out"
    parts = urlsplit(url)
    here = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    secure = parts.scheme == "https" or (parts.scheme == "http" and here in HOSTS_HERE)
    if not secure or parts.username is not None or parts.query or not PATH.fullmatch(parts.path):
        return f"{prefix}NOTICES_QUEUE_URL={url}: give a queue's URL, https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"
    if not (settings.notices_queue_region or region_of(url)):
        return f"{prefix}NOTICES_QUEUE_URL={url} names no region: set {prefix}NOTICES_QUEUE_REGION"
    return None
