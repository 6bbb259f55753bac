"""What the service says over HTTP: probes and metrics on one port, reads on another. It changes nothing."""
