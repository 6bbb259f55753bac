"""Who calls, how often they may, and what they may do, by Kubernetes tokens and RBAC."""
