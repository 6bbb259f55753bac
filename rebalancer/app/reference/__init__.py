"""Pages of the documentation that are written from code: what the code does not say, they cannot say."""
