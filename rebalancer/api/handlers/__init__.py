"""What answers a route: each takes a request, asks a port or a page for values, and gives them back as JSON."""
