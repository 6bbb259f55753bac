"""The client's own words for what it reads, for rooms that do not import the client."""

from aiokafka import ConsumerRecord, TopicPartition

__all__ = ["ConsumerRecord", "TopicPartition"]
