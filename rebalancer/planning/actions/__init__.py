"""What is done about it: moves past the guards, node grants, drains, and the numbers to write."""
