"""The pages hold together: no link leads nowhere, no name is invented, no figure contradicts the code."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import pytest
import typer

from rebalancer.app.past import PAUSE_SECONDS
from rebalancer.app.reference.reasons import reasons_page
from rebalancer.app.status_reporter import DEAD_SECONDS, FRUITLESS_SECONDS
from rebalancer.cli.entry import app
from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.domain.node_rules import NodeRules
from rebalancer.domain.policy import Classes, DeferralRule, Guards, OverrideRules, Policy, SurgeRules
from rebalancer.domain.snapshot import REPAIRED_AFTER_SECONDS
from rebalancer.obs.metrics.alerts import rules_text
from rebalancer.obs.metrics.catalogue import BY_NAME
from rebalancer.planning.demand.owed import OWED_AFTER_SECONDS
from rebalancer.planning.explanation.lateness import LATE_SHARE
from rebalancer.planning.guards.guards import EVERY_GUARD
from rebalancer.planning.guards.release import PASSES, Purpose
from rebalancer.settings.service import PREFIX, ServiceSettings
from rebalancer.state.checkpoint import Restored
from rebalancer.state.holdings import CONTRADICTED_SECONDS, UNHEARD_SECONDS
from rebalancer.state.outlook.rule import BUSIEST_SECONDS, DWELL_SECONDS, LEARN_SECONDS
from tests.docs.blocks import DOCS, blocks, written_pages
from tests.docs.pictures import PICTURES, families, pictures, recorded
from tests.house.repository import ROOT, tracked

TEXTS = {str(page.relative_to(DOCS)): page.read_text() for page in written_pages()}
RULES = TEXTS["rules.md"]

# Part of a row's first cell on the page of restarts -> the fields that it is about.
REMEMBERED = {
    "losses in guards' windows": "ModelMemory.losses ModelMemory.last_move_at",
    "demand in force, cooldown, surge, who waits": (
        "ModelMemory.demand ModelMemory.higher_since ModelMemory.surge_since ModelMemory.calm_since"
        " ModelMemory.lower_since ModelMemory.lower_peak ModelMemory.owed ModelMemory.begun_anew"
    ),
    "pods beside which a replacement was asked": "ModelMemory.replaced",
    "node grants, NodePools that rest, shifts": "Memory.node_grants Memory.grant_failures Memory.shifts",
    "loans": "Memory.loans",
    "an outage seen": "Memory.outages ModelMemory.levels ModelMemory.falls ModelMemory.jump",
    "when somebody last gave a replica away": (
        "ModelMemory.gave_at ModelMemory.got_again ModelMemory.swung ModelMemory.spare_since"
    ),
    "since when somebody is short": "ModelMemory.unmet_since ModelMemory.deferred_since ModelMemory.waiting",
    "replicas when an override": "Memory.overrides",
    "accounts of notices": "Memory.accounts",
    "since when a start holds back": "Memory.unknown_before Memory.resumed_at",
    "open notices": "Restored.notices",
    "who changed our numbers": "Restored.foreign",
    "offered work, its means": "Restored.rings",
    "records read": "Restored.offsets",
    "the number of the next cycle": "Restored.cycle Restored.at",
}
# What holds the others, and what is said of the checkpoint itself.
NO_ROW = {"Memory.models", "Restored.memory", "Restored.problems", "Restored.slot", "Restored.writers"}


def test_the_site_builds_without_a_warning(tmp_path_factory: pytest.TempPathFactory) -> None:
    site = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = re.findall(r'<(?:script|link)[^>]+(?:src|href)="(https?:[^"]+)"', (site / "index.html").read_text())
    assert loaded == [], "a page loads nothing from elsewhere"


def test_every_setting_metric_and_alert_that_a_page_names_exists() -> None:
    settings = {PREFIX + name.upper() for name in ServiceSettings.model_fields}
    settings |= {"REBALANCER_SERVER", "REBALANCER_SERVICE_NAMESPACE", "REBALANCER_TRACES"}  # of the command line
    series = {metric.name + tail for metric in BY_NAME.values() for tail in ("", "_bucket", "_count", "_sum")}
    alerts = set(re.findall(r"alert: (\w+)", rules_text()))
    wrong = []
    for page, text in TEXTS.items():
        wrong += [f"{page}: {name}" for name in re.findall(r"\bREBALANCER_[A-Z_]+\b", text) if name not in settings]
        wrong += [f"{page}: {name}" for name in re.findall(r"\brebalancer_[a-z_]+\b", text) if name not in series]
        wrong += [f"{page}: {name}" for name in re.findall(r"`(Rebalancer[A-Z]\w+)`", text) if name not in alerts]
    assert wrong == []


def test_every_command_that_a_page_names_exists_with_its_options() -> None:
    wrong = []
    for page, line in command_lines():
        path: tuple[str, ...] = ()
        for word in line.split()[1:]:
            path = (*path, word) if (*path, word) in commands() else path
        options = re.findall(r"--[a-z-]+", line)
        wrong += [f"{page}: {line}"] if not path else []
        wrong += [f"{page}: {line}: {option}" for option in options if option not in commands()[path]]
    assert wrong == []
    assert len(command_lines()) > 10


def test_every_file_that_a_page_names_exists() -> None:
    folders = ("charts", "config", "docker", "requirements", "runbooks")
    named = {
        (page, path)
        for page, text in TEXTS.items()
        for path in re.findall(rf"\b((?:{'|'.join(folders)})/[\w./-]*)", text)
    }
    assert len(named) > 5
    assert [each for each in named if not (ROOT / each[1].rstrip(".")).exists()] == []


def test_every_word_of_the_glossary_is_where_it_says_in_the_code() -> None:
    row = re.compile(r"^\| ([\w -]+) \| .*\| `([\w.]+)\.(\w+)` \|$", re.MULTILINE)
    rows = {page: row.findall(TEXTS[page]) for page in ("glossary.md", "words.md")}
    assert 35 < len(rows["glossary.md"]) < 50, "a page of the words that everybody meets, to be read at once"
    words = [word for page in rows.values() for word, *_ in page]
    assert sorted(words) == sorted(set(words)), "one meaning a word"
    named = [(module, name) for page in rows.values() for _, module, name in page]
    assert [each for each in named if not hasattr(import_module(f"rebalancer.{each[0]}"), each[1])] == []


def test_every_function_that_the_rules_name_is_in_its_module() -> None:
    modules: dict[str, str] = {}
    for path in tracked("rebalancer/*.py"):
        name = path.parent.name if path.name == "__init__.py" else path.stem
        modules[name] = modules.get(name, "") + (ROOT / path).read_text()
    named = set(re.findall(r"`([a-z_]+)\.([a-z_]+)`", RULES))
    assert len(named) > 20
    assert [each for each in sorted(named) if not re.search(rf"\b{each[1]}\b", modules.get(each[0], ""))] == []


def test_every_test_that_the_page_on_restarts_names_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", TEXTS["restart.md"]))
    assert len(named) > 5
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_the_page_on_restarts_has_a_row_for_all_that_planning_and_a_checkpoint_remember() -> None:
    rows = [line.split(" | ")[0].removeprefix("| ") for line in TEXTS["restart.md"].splitlines() if " | " in line]
    kept = {f"{kind.__name__}.{name}" for kind in (Memory, ModelMemory, Restored) for name in kind.__struct_fields__}
    named = {thing for things in REMEMBERED.values() for thing in things.split()}
    assert kept - NO_ROW == named, "a field is new or gone: name it with the row that says what a restart does to it"
    assert [part for part in REMEMBERED if not any(part in row for row in rows)] == []


def test_the_page_on_restarts_has_the_figures_of_the_code() -> None:
    page = TEXTS["restart.md"]
    assert f"ended for {DEAD_SECONDS:.0f} s" in page
    assert f"planned for {FRUITLESS_SECONDS:.0f} s" in page
    assert PAUSE_SECONDS == 60.0, "the page says a minute"


def test_the_guards_on_the_page_have_the_limits_of_the_defaults() -> None:
    guards = Guards()
    for name in ("step", "fleet", "shift"):
        rule = getattr(guards, name)
        row = next(line for line in RULES.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"{rule.share:.0%}".replace("%", " %") in row
        assert f"in {rule.window_seconds:.0f} s" in row
    assert f"{guards.start.metric_intervals} metric intervals" in RULES
    assert f"older than {guards.blind.stale_seconds:.0f} s" in RULES
    assert f"fewer\nthan {guards.blind.min_coverage * 100:.0f} %" in RULES
    assert f"| `foreign` | after two changes by somebody else within {guards.foreign.window_seconds:.0f} s" in RULES
    assert guards.foreign.changes == 2
    assert f"over {REPAIRED_AFTER_SECONDS:.0f} s after that" in RULES
    assert f"fewer than {guards.agree.votes} usable votes" in RULES
    fell, most = f"{guards.sudden.drop * 100:.0f} % or more", f"more than {guards.sudden.models * 100:.0f} %"
    assert f"{fell} within {guards.sudden.window_seconds:.0f} s in {most}" in RULES
    assert f"that have any, and in {guards.sudden.least_models} or more" in RULES
    assert "within the last hour" in RULES
    assert guards.sudden.usual_seconds == 3600.0
    assert f"no decrease for {guards.sudden.hold_seconds:.0f} s" in RULES
    assert f"over {guards.plausible.times:.0f} times" in RULES
    assert f"before {guards.plausible.samples} samples" in RULES


def test_pages_that_tell_a_guard_in_passing_have_its_limit_too() -> None:
    guards, decides = Guards(), TEXTS["how-it-decides.md"]
    for name in ("step", "fleet", "shift"):
        rule = getattr(guards, name)
        row = next(line for line in decides.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"{rule.share:.0%}".replace("%", " %") in row
        assert f"in {rule.window_seconds:.0f} s" in row
    assert f"beyond {guards.plausible.times:.0f} times" in decides
    assert f"within {NodeRules().node_timeout_seconds:.0f} s" in decides
    told = {*re.findall(r"^\| `(\w+)` \|", decides, re.MULTILINE)}
    rules = {*re.findall(r"^\| `(\w+)` \|", RULES[RULES.index("## 8.") :].split("###")[0], re.MULTILINE)}
    reasons = reasons_page().split("## Guards")[1].split("##")[0]
    assert told == rules == {*re.findall(r"^\| `(\w+)` \|", reasons, re.MULTILINE)} == {*EVERY_GUARD}
    share, seconds = guards.shift.share, guards.shift.window_seconds
    assert f"floor({share:g} x (8 - 1)) = {int(share * 7)} replicas in {seconds:.0f} s" in TEXTS["policy.md"]


def test_the_page_for_the_night_has_the_periods_and_shares_of_the_code() -> None:
    decides = " ".join(TEXTS["how-it-decides.md"].split())
    every, words = Policy.model_fields["plan_every_seconds"].default, {3: "three", 5: "five"}
    assert f"Every {every:.0f} seconds the rebalancer makes one plan" in decides
    assert f"up to a planning period of {every:.0f} seconds" in decides
    assert f"have asked for them for some {OWED_AFTER_SECONDS:.0f} seconds" in decides
    assert f"those {OWED_AFTER_SECONDS:.0f} seconds (none in a surge" in decides
    assert f"more than {LATE_SHARE * 100:.0f} % of the requests until a new replica could serve will be late" in decides
    minutes, hours = words[BUSIEST_SECONDS // 60], words[LEARN_SECONDS // 3600]
    assert f"busiest {minutes} minutes of {hours} hours" in decides
    assert "Batch models count a tenth until their deadline comes near" in decides
    assert DeferralRule().weight == 0.1
    assert f"| `loss` | nothing for {NodeRules().loss_hold_seconds:.0f} s from a model" in decides


def test_the_words_beside_the_pictures_have_the_figures_of_the_recorded_run() -> None:
    """What a replica is worth in `worth.svg`, and when who released and served in `shift.svg`."""
    run, decides = recorded(), " ".join(TEXTS["how-it-decides.md"].split())
    (least, chat), (_, code) = run.late.chat, run.late.code
    late = {least + place: round(cost) for place, cost in enumerate(chat)}
    has, words = run.late.held["chat"], {3: "three", 4: "four", 5: "five", 7: "seven"}
    most = max(late)
    fourth, seventh = (round(chat[count - least - 1] - chat[count - least]) for count in (has + 1, most))
    assert f"With its {words[has]} replicas `chat` would cost {late[has]:,} late requests in the next" in decides
    assert f"in the next {run.late.horizon_seconds} seconds, with {words[has + 1]} {late[has + 1]:,}:" in decides
    assert f"a fourth is worth {fourth:,} to it, a seventh still {seventh}." in decides
    assert {words[has + 1], words[most]} == {"four", "seven"}
    assert set(code) == {0.0}, "with one replica it would have none late, as with five"
    alt = f"from {late[least]} with two replicas to {late[3]} with three, {late[4]} with four and {late[7]} with seven"
    assert alt in decides

    released, granted = run.moves[:2]
    serves = [at for at, chat_ready, _ in run.ready if chat_ready > has and at < 60.0]
    back = next(at for at, model, kind, *_ in run.moves if (model, kind) == ("chat", "release"))
    went = words[released[3] - released[4]], words[run.late.held["code"]]
    assert f"At {released[0]:.0f} s `code` releases {went[0]} of its {went[1]} replicas" in decides
    assert (granted[1:3], words[granted[4] - granted[3]]) == (("chat", "grant"), "four")
    assert f"At {serves[0]:.0f} s the first of them serves, at {serves[-1]:.0f} s the last" in decides
    assert f"From {back:.0f} s on the surge has ebbed" in decides


def test_the_pictures_are_those_that_the_recorded_run_draws() -> None:
    drawn = pictures()
    assert {name: (PICTURES / name).read_text() for name in drawn} == drawn, "run: python -m tests.docs.pictures"
    shown = "\n".join([*TEXTS.values(), (ROOT / "README.md").read_text()])
    for name in drawn:  # each with words for who cannot see it
        assert re.search(rf"!\[[^\]]{{40,}}\]\((docs/)?pictures/{re.escape(name)}\)", shown), name


def test_readme_and_its_picture_have_the_figures_of_the_benchmarks() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    rows = {family: (ours, best) for family, ours, best, _ in families()}
    assert len(rows) == 8
    assert (
        f"late with {rows['swaps'][0]:.2f} % of the requests, the best tuned peer with {rows['swaps'][1]:.2f} %"
        in readme
    )
    told = re.findall(r"([a-z-]+) ([\d.]+) against ([\d.]+)", readme)
    assert len(told) == 5
    assert all(rows[family] == (float(ours), float(best)) for family, ours, best in told)


def test_what_passes_which_guard_is_on_the_page() -> None:
    rows = dict(re.findall(r"^\| ([^|`]+) \| ([a-z, ]+) \|$", RULES, re.MULTILINE))
    said = {
        Purpose.DRAIN: "its node is under notice",
        Purpose.OVERRIDE: "an override caps or pins this model, down to that number",
        Purpose.RECLAIM: "a reclaim, down to the borrower's entitlement",
        Purpose.SHIFT: "a shift",
        Purpose.SURPLUS: "surplus that costs money",
        Purpose.BUDGET: "the pool shrank",
    }
    assert {purpose: set(rows[words].split(", ")) for purpose, words in said.items()} == {
        purpose: set(PASSES[purpose]) for purpose in said
    }


def test_classes_surge_nodes_and_overrides_have_the_numbers_of_the_defaults() -> None:
    for name, rules in Classes():
        row = f"| `{name}` | {rules.high_utilisation} | {rules.low_utilisation} | {rules.cooldown_seconds:.0f} s |"
        assert row in RULES
    surge, nodes, overrides = SurgeRules(), NodeRules(), OverrideRules()
    flat = " ".join(RULES.split())
    assert f"its last {surge.short_window_seconds:.0f} s are at least {surge.enter_ratio} times" in flat
    assert f"its last {surge.long_window_seconds:.0f} s" in flat
    assert f"ends after {surge.leave_after_seconds:.0f} s below {surge.leave_ratio} times" in flat
    assert f"no node within {nodes.node_timeout_seconds:.0f} s" in flat
    assert f"{overrides.default_seconds:.0f} s ahead when nobody says, at most {overrides.max_seconds:.0f} s" in flat
    assert f"its **horizon**, a start and {DWELL_SECONDS} s later" in flat
    assert f"our number (`Holdings`): for {UNHEARD_SECONDS:.0f} s, or for {CONTRADICTED_SECONDS:.0f} s once" in flat


def command_lines() -> list[tuple[str, str]]:
    """(page, command line) of everything that begins with our command, in blocks and in the text."""
    found = [
        (block.page, line.removeprefix("$ "))
        for block in blocks("console", "bash")
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.removeprefix("$ ").startswith("rebalancer ")
    ]
    for page, text in TEXTS.items():
        found += [(page, line) for line in re.findall(r"`(rebalancer [a-z][^`]+)`", text)]
    return found


def test_each_option_that_the_console_tells_people_to_type_exists() -> None:
    text = "".join(page.read_text() for page in sorted((ROOT / "rebalancer/api/console").rglob("*.js")))
    lines = re.findall(r"rebalancer ([a-z][^\"`<\n]*--[a-z-]+)", text)
    assert len(lines) > 4
    for line in lines:
        words = line.split()
        path = next(tuple(words[:n]) for n in (2, 1) if tuple(words[:n]) in commands())
        assert set(re.findall(r"--[a-z-]+", line)) <= commands()[path], line


@cache
def commands() -> dict[tuple[str, ...], set[str]]:
    """Every command by its words, with its options."""

    def below(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], set[str]]]:  # noqa: ANN401  # typer keeps its own click
        yield path, {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
        for name, inner in getattr(command, "commands", {}).items():
            yield from below((*path, name), inner)

    return dict(below((), typer.main.get_command(app)))
