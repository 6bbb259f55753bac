"""What may go: each guard turns a release into a refusal with its numbers, or lets it pass."""
