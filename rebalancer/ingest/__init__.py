"""Bytes become typed events here, and bytes that cannot become typed rejections: nothing that comes in raises.

`decode` and `notices` turn Kafka records into events, `intake` hands them on; `objects` turns what Kubernetes lists
and watches into values, `watches` follows it. Both hand events to one synchronous sink, which is the state.
"""
