"""What the API asks of the service behind it, as protocols with the values that they take and give. `app` has them."""
