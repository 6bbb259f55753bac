"""The two ports of the service: their applications, their routes and what happens around every request."""
