"""The one door to AWS: who we are there, a queue of SQS, the login to its Prometheus."""
