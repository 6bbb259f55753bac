"""Authentication and authorization of callers, by Kubernetes tokens and RBAC, and how often each may call."""
