"""docker/compose.yaml says only what compose knows, and every file it mounts is there. Nothing starts it here."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rebalancer.settings.service import PREFIX, ServiceSettings
from tests.house.repository import ROOT
from tests.testbed.build import Missing, build

FILE = ROOT / "docker/compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())


@pytest.mark.real
@pytest.mark.timeout(300)
def test_it_is_valid_by_the_compose_specification() -> None:
    try:
        folder = build("compose-spec").folder
    except Missing as missing:
        pytest.skip(f"the compose schema cannot be had: {missing.reason}")
    schema = json.loads((folder / "manifests/schema/compose-spec.json").read_text())
    rules = jsonschema.Draft7Validator(schema)
    rules.validate(COMPOSE)
    wrong = {**COMPOSE, "services": {"rebalancer": {"imagee": "rebalancer"}}}
    with pytest.raises(jsonschema.ValidationError, match="imagee"):
        rules.validate(wrong)


def mounted() -> list[str]:
    """Host paths that its services mount; the user's own kubeconfig is a variable."""
    volumes = [volume for service in COMPOSE["services"].values() for volume in service.get("volumes", ())]
    return [path for path in (volume.split(":")[0] for volume in volumes) if path.startswith(".")]


def test_every_file_it_mounts_or_builds_from_is_there() -> None:
    folder = FILE.parent
    build_of = COMPOSE["services"]["rebalancer"]["build"]
    wanted = [folder / path for path in mounted()]
    wanted.append(folder / build_of["context"] / build_of["dockerfile"])
    assert len(wanted) > 4
    assert [str(path) for path in wanted if not path.resolve().exists()] == []


def test_an_edited_policy_reaches_the_container_though_editors_put_a_new_file_in_the_old_ones_place() -> None:
    """A mount of one file stays with the file that was there; one of its folder does not."""
    service = COMPOSE["services"]["rebalancer"]
    policy = Path(service["environment"]["REBALANCER_POLICY_PATH"])
    folders = {
        place: path for path, place, *_ in (volume.split(":") for volume in service["volumes"] if volume[0] == ".")
    }
    assert (FILE.parent / folders[str(policy.parent)] / policy.name).is_file()


def test_the_service_gets_settings_that_exist_and_stays_in_shadow() -> None:
    service = COMPOSE["services"]["rebalancer"]
    names = {name.removeprefix(PREFIX).lower() for name in service["environment"]}
    assert names <= set(ServiceSettings.model_fields)
    given = {name.removeprefix(PREFIX).lower(): value for name, value in service["environment"].items()}
    assert ServiceSettings.model_validate(given).write_mode == "shadow"
    assert service["read_only"] is True


def test_the_configuration_beside_it_agrees_with_its_ports() -> None:
    scraped = yaml.safe_load((FILE.parent / "prometheus.yaml").read_text())["scrape_configs"][0]["static_configs"]
    port = ServiceSettings.model_fields["probe_port"].default
    assert scraped == [{"targets": [f"rebalancer:{port}"]}]
    source = yaml.safe_load((FILE.parent / "grafana/datasources.yaml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    shown = yaml.safe_load((FILE.parent / "grafana/dashboards.yaml").read_text())["providers"][0]["options"]["path"]
    assert any(re.search(rf":{re.escape(shown)}/\w+\.json", line) for line in COMPOSE["services"]["grafana"]["volumes"])


def test_nothing_listens_beyond_the_laptop() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_image_context_holds_what_the_dockerfile_copies_and_no_more() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert [path for path in allowed if not Path(ROOT, path).exists()] == []
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()


def test_an_image_can_be_built_of_every_file_of_requirements() -> None:
    allowed = {Path(line[1:]) for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    files = [file.relative_to(ROOT) for file in (ROOT / "requirements").iterdir()]
    assert [str(file) for file in files if not allowed & {file, *file.parents}] == []
