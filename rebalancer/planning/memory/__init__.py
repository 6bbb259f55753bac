"""What is remembered from plan to plan: outcomes of writes, grants of nodes, outages."""
