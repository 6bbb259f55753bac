"""The first policy of a large fleet is a file that its own next command takes."""

from rebalancer.settings.problems import check_text
from rebalancer.survey.first_policy.drafting import first_policy
from rebalancer.survey.first_policy.text import text_of
from rebalancer.survey.objects import Survey
from tests.survey.cluster import PRODUCT, engine
from tests.testbed.objects import gpu_node, scaled_object

FLEET = [f"model-{number}" for number in range(40)]


def test_where_the_file_would_be_too_long_what_repeats_is_said_once_above_all_models() -> None:
    scaled = [each for name in FLEET for each in (engine(name), scaled_object(name, "ml", 1, 4, []))]
    draft = first_policy(Survey((gpu_node("a", 8, labels={PRODUCT: "NVIDIA-A100"}), *scaled)))
    long, short = text_of(draft), text_of(draft, most_bytes=1000)
    assert check_text(short, "policy.yaml") == check_text(long, "policy.yaml")
    assert len(short) < 0.6 * len(long)
    slo = "# - slo: choose: the p95 time to first token that its users were promised"
    assert (long.count("#slo:"), short.count("#slo:"), short.count(slo)) == (len(FLEET), 0, 1)
    assert short.count("as its engine's arguments name the model in metrics") == 1
    assert short.count("# guess: choose: see above") == len(FLEET)
    assert "# minReplicaCount of scaledobject/ml/model-7\n" in short
