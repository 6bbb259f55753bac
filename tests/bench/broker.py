"""A helper: the embedded broker with the service's topics. Says its address."""

from rebalancer.kafka.broker import TOPICS, Broker
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.bench.children import say, until_the_end


def main() -> None:
    """Serve until the end."""
    names = Broker("")
    broker = EmbeddedBroker({names.topic(name): topic.partitions for name, topic in TOPICS.items()})
    broker.start()
    try:
        say(broker.bootstrap)
        until_the_end()
    finally:
        broker.stop()


if __name__ == "__main__":
    main()
