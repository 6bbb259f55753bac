"""The one door to a queue of Amazon SQS."""
