"""All rows, by group and by id: the catalogue's 101, and fourteen that the link to Kafka makes cheap."""

from tests.faults.row import Group, Row
from tests.faults.rows.actors import ACTORS
from tests.faults.rows.api_server import API_SERVER
from tests.faults.rows.kafka import KAFKA
from tests.faults.rows.leadership import LEADERSHIP
from tests.faults.rows.links import LINKS
from tests.faults.rows.metrics import METRICS
from tests.faults.rows.nodes import NODES
from tests.faults.rows.people import PEOPLE

CATALOGUE: tuple[Group, ...] = (KAFKA, API_SERVER, LEADERSHIP, METRICS, ACTORS, NODES, PEOPLE)
GROUPS: tuple[Group, ...] = (*CATALOGUE, LINKS)
ROWS: dict[str, Row] = {row.id: row for group in GROUPS for row in group.rows}
GROUP_OF: dict[str, Group] = {row.id: group for group in GROUPS for row in group.rows}
