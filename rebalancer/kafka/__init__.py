"""The one door to Kafka: topics, offsets and bytes, in and out, whatever the broker does meanwhile.

It knows nothing of models, pools or policy. `broker` says where Kafka is, `consumer` reads topics and hands each batch
to a reader, `outbox` is the one producer, `dead_letters` keeps what a reader rejected, `topic_past` reads what a topic
holds at a start. `frontier` says how far a partition is done, `progress` whether reading goes on.
"""
