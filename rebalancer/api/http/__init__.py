"""The protocol alone: what a route is, how bodies and query parameters are read, how values and errors are answered."""
