"""What the service tells Prometheus, asked of the service and of a real Prometheus."""
