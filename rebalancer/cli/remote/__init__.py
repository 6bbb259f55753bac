"""The service's API and the person's cluster, as every command reaches them."""
