"""The snapshot through the policy: a `Scene` of models, targets, pools and nodes that every later stage reads."""
