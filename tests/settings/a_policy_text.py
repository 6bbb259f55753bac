"""A small good policy as text, to be spoilt by a test in one place."""

GOOD = """\
apiVersion: rebalancer.io/v1alpha1
kind: Policy
pools:
  - name: a100
    kind: primary
    nodeLabels: {pool: a100}
    gpuLimit: 16
    nodePools: [a100-1]
    gpusPerNode: 8
  - name: spot
    kind: elastic
    nodeLabels: {pool: spot}
    gpuLimit: 8
    nodePools: [spot-1]
    gpusPerNode: 8
surge: {shortWindowSeconds: 15, longWindowSeconds: 300, enterRatio: 1.5, leaveRatio: 1.2}
deferral: {windowSeconds: 3600, turnSeconds: 900}
classes:
  realtime: {highUtilisation: 0.7, lowUtilisation: 0.3, cooldownSeconds: 60}
teams:
  - {name: chat, elasticGpus: 4}
models:
  - id: qwen-32b
    namespace: serving
    team: chat
    aliases: [qwen]
    targets:
      - {pool: a100, name: qwen}
      - {pool: spot, name: qwen-spot}
    gpusPerReplica: 2
    minReplicas: 1
    maxReplicas: 8
    entitlement: 4
    slo: {latencySeconds: 2}
    signals: {latency: true, kvCache: {high: 0.8, low: 0.4}}
    schedules:
      - {name: rush, days: [mon, fri], from: "07:30", until: "10:00", timeZone: Europe/Berlin,
         minReplicas: 3, maxReplicas: 6, firstDate: 2027-11-26, lastDate: 2027-11-29}
  - id: sdxl
    namespace: media
    targets:
      - {pool: spot, name: sdxl}
    gpusPerReplica: 1
    minReplicas: 0
    maxReplicas: 4
    entitlement: 0
    signals: {queue: {high: 10}}
"""


def spoilt(*changes: tuple[str, str]) -> str:
    """GOOD with each first text replaced once by the second."""
    text = GOOD
    for old, new in changes:
        assert old in text, f"{old!r} is not in the good policy"
        text = text.replace(old, new, 1)
    return text


def line_of(text: str, part: str) -> int:
    """Line (from 1) on which `part` first stands."""
    return text[: text.index(part)].count("\n") + 1
