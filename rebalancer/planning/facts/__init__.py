"""The snapshot through the policy: a `Scene` of models, parts, pools and nodes that every later stage reads."""
