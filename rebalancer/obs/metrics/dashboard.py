"""The Grafana dashboard, laid out from `panels`."""

import json
from typing import Any

from rebalancer.obs.metrics.panel import DashboardPanel
from rebalancer.obs.metrics.panels import ROWS

UID = "rebalancer-overview"
COLUMNS, HEIGHT, STAT_HEIGHT = 24, 8, 4
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
CHANGES = 'sum by (kind) (increase(rebalancer_changes_total{status="written"}[1m])) > 0'

Json = dict[str, Any]


def dashboard_text() -> str:
    """The file that Grafana imports or provisions."""
    return json.dumps(dashboard(), indent=2) + "\n"


def dashboard() -> Json:
    """Grafana's model (schema version 39: Grafana 10.4 and later)."""
    return {
        "uid": UID,
        "title": "Rebalancer",
        "description": "Who lacks what, who holds which GPU, what was done and refused.",
        "tags": ["rebalancer"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [_datasource(), _choice("model"), _choice("pool")]},
        "annotations": {"list": [_changes()]},
        "panels": _panels(),
    }


def _datasource() -> Json:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _changes() -> Json:
    """A line through all panels where replicas were moved, so that latency and use are seen beside it."""
    return {
        "name": "Changes",
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": "blue",
        "expr": CHANGES,
        "step": "60s",
        "titleFormat": "{{kind}}",
    }


def _choice(label: str) -> Json:
    """A variable: all values of a label, several at once."""
    metric = {"model": "rebalancer_model_replicas", "pool": "rebalancer_pool_gpus"}[label]
    return {
        "name": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": f"label_values({metric}, {label})", "refId": label},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> list[Json]:
    """Rows from top to bottom, panels from left to right."""
    placed: list[Json] = []
    top = 0
    for row in ROWS:
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        placed.append({"id": len(placed) + 1, "type": "row", "title": row.title, "collapsed": False, "gridPos": place})
        top, left, height = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left = top + height, 0
            height = STAT_HEIGHT if panel.kind == "stat" else HEIGHT
            place = {"h": height, "w": panel.width, "x": left, "y": top}
            placed.append({"id": len(placed) + 1, "gridPos": place, **_panel(panel)})
            left += panel.width
        top += height
    return placed


def _panel(panel: DashboardPanel) -> Json:
    empty = " ".join(f"Empty when {query.empty}." for query in panel.queries if query.empty)
    mapped = {str(value): {"text": word, "color": colour} for value, word, colour in panel.words}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": f"{panel.description} {empty}".rstrip(),
        "datasource": DATASOURCE,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "mappings": [{"type": "value", "options": mapped}] if mapped else []},
            "overrides": [],
        },
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": DATASOURCE,
                "expr": query.expr,
                "legendFormat": query.legend or "__auto",
                "instant": panel.kind == "stat",
                "range": panel.kind != "stat",
            }
            for number, query in enumerate(panel.queries)
        ],
    }
