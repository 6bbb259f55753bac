"""A real Prometheus that scrapes the service each second and knows our alerts, in a world that runs faster."""

import json
import re
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.testbed.place import answers
from tests.testbed.process import Process, Reaper, free_port
from tests.testbed.system import program

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LEAST_SECONDS = 3  # three scrapes: what `rate` needs


def sped_up(rules: dict[str, Any], times: float) -> dict[str, Any]:
    """The same rules, every `for` and range shorter by `times`; their true lengths are promtool's to test."""
    text = json.dumps(rules)

    def shorter(match: re.Match[str]) -> str:
        seconds = sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", match["time"]))
        return f"{match['before']}{max(_LEAST_SECONDS, round(seconds / times))}s{match['after']}"

    text = re.sub(r'(?P<before>"for": ")(?P<time>[0-9smhd]+)(?P<after>")', shorter, text)
    text = re.sub(r"(?P<before>\[)(?P<time>(?:\d+[smhd])+)(?P<after>[\]:])", shorter, text)
    text = re.sub(r"(?<=_seconds > )\d+", lambda match: str(max(_LEAST_SECONDS, round(int(match[0]) / times))), text)
    faster: dict[str, Any] = json.loads(text)
    return faster


class Prometheus:
    """`start`, ask `firing`, `stop`. Scrapes `targets` (job -> HOST:PORT) each second, and what `scrape` adds."""

    def __init__(self, folder: Path, targets: dict[str, str], rules: dict[str, Any]) -> None:
        self._reaper = Reaper()
        self._port = free_port()
        (folder / "rules.yaml").write_text(json.dumps(rules))
        self._folder = folder
        for job, target in targets.items():
            self.scrape(job, target)
        scrapes = [
            {"job_name": job, "file_sd_configs": [{"files": [f"{job}.json"]}], "honor_labels": True} for job in targets
        ]
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": scrapes,
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        command = [
            str(program("prometheus")),
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--log.level=warn",
        ]
        self._process = Process(
            command,
            log=folder / "prometheus.log",
            healthy=lambda: answers(self._port, "/-/ready"),
            reaper=self._reaper,
        )

    def scrape(self, job: str, *targets: str) -> None:
        """Scrape just these in that job from now on."""
        whole = self._folder / f"{job}.json.new"
        whole.write_text(json.dumps([{"targets": targets}]))
        whole.replace(self._folder / f"{job}.json")

    def start(self) -> None:
        """Raises process.Failed with its log."""
        self._process.start()

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._reaper.close()

    def firing(self, alert: str) -> list[dict[str, str]]:
        """The labels of each alert of that name which fires now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/alerts", timeout=5) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        return [each["labels"] for each in alerts if each["state"] == "firing" and each["labels"]["alertname"] == alert]

    def value(self, query: str) -> float | None:
        """The first value that answers a query now; None where there is none."""
        asked = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/query?{asked}", timeout=5) as answer:
            found = json.load(answer)["data"]["result"]
        return float(found[0]["value"][1]) if found else None

    def states(self) -> str:
        """All alerts that are not quiet, for the report of a failed test."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/alerts", timeout=5) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        return "\n".join(f"{each['state']} {each['labels']}" for each in alerts) or "no alert"
