"""Every alert fires on its symptom, not on the near miss, and ends: Prometheus' own promtool says so."""
