"""The one door to the Kubernetes API: raw JSON in and out, errors named by what the caller should do.

It knows nothing of models, pools or policy. `client` has the verbs, `reflector` keeps a sink up to
date with one resource, `access` finds the server and logs in, `errors` is what can go wrong.
"""
