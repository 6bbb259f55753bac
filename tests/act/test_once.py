"""Whatever happens to the reply, a write is sent once and told honestly."""

import pytest
from structlog.testing import capture_logs

from rebalancer.act.driver import Ask, Refused
from rebalancer.act.once import write_once
from rebalancer.kube.errors import Ambiguous, Conflict, KubeError, Temporary
from rebalancer.kube.resources import Object


class Puzzling:
    """A driver whose write ends with `error`, and whose object then shows our value, or not, or cannot be read."""

    def __init__(self, error: Exception, shows: bool | KubeError) -> None:  # noqa: FBT001  # one of its two answers
        self.error = error
        self.answer = shows
        self.writes = 0

    async def look(self, change: str) -> Object:
        return {}

    async def write(self, change: str, seen: Object) -> Ask | None:
        self.writes += 1
        raise self.error

    async def shows(self, change: str) -> bool:
        if isinstance(self.answer, KubeError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("error", [Ambiguous("lost"), TypeError("a reply without a spec")])
@pytest.mark.parametrize(
    ("shows", "status"), [(True, "written"), (False, "unknown"), (Temporary("not connected"), "unknown")]
)
async def test_a_write_whose_reply_says_nothing_is_told_by_what_the_object_shows(
    error: Exception, *, shows: bool | KubeError, status: str
) -> None:
    driver = Puzzling(error, shows)

    with capture_logs():
        found, detail, stored = await write_once(driver, "change", {})

    assert (found, stored) == (status, None)
    assert detail
    assert driver.writes == 1


@pytest.mark.parametrize("error", [Conflict("moved on"), Temporary("429"), Refused("bounds", "minimum above maximum")])
async def test_an_error_that_says_nothing_was_written_is_passed_on(error: Exception) -> None:
    driver = Puzzling(error, shows=True)

    with pytest.raises(type(error)):
        await write_once(driver, "change", {})

    assert driver.writes == 1
