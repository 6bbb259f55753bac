"""Everything the service talks to, embedded in one process: a Kafka broker and a Kubernetes API on loopback."""
