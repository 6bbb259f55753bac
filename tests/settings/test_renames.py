"""A model under another name whose producers go on to say the old one."""

import pytest

from rebalancer.domain.policy import Model
from rebalancer.settings.renames import unheard
from tests.builders import a_model, a_policy, a_target_spec


def on_chat(name: str, *aliases: str) -> Model:
    return a_model(name, 1, aliases=aliases, targets=(a_target_spec("a100", "chat"),))


def test_a_model_that_is_renamed_without_its_old_names_is_told_with_what_to_do() -> None:
    (problem,) = unheard(a_policy(on_chat("chat", "llama-70b")), a_policy(on_chat("chat-70b")))
    assert problem.startswith("model chat is called chat-70b now: samples that say chat, llama-70b are heard no more")
    assert problem.endswith("give chat-70b `aliases: [chat, llama-70b]`")


@pytest.mark.parametrize(
    "after",
    [(on_chat("chat-70b", "chat"),), (on_chat("chat"),), (a_model("other", 1),), ()],
    ids=["with its alias", "not renamed", "gone for another", "gone"],
)
def test_nothing_is_told_of_a_model_that_is_heard_or_gone(after: tuple[Model, ...]) -> None:
    assert list(unheard(a_policy(on_chat("chat")), a_policy(*after))) == []
