"""What staging leaves behind when the body or the clean-up fails, with stand-ins for Iceberg's registries."""

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from zlayout.errors import CommitUnknown
from zlayout.formats.iceberg.write import staging
from zlayout.formats.iceberg.write.staging import stage


class Registry:
    """Notes the calls made on it; those named in `broken` find no JVM any more."""

    def __init__(self, *broken: str) -> None:
        self.calls: list[str] = []
        self._broken = broken

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> None:
            if name in self._broken:
                raise Py4JNetworkError("Answer from Java side is empty")
            self.calls.append(name)

        return call


def jvm_of(registry: Registry) -> Any:
    spark = SimpleNamespace(
        ScanTaskSetManager=SimpleNamespace(get=lambda: registry),
        FileRewriteCoordinator=SimpleNamespace(get=lambda: registry),
    )
    cache = SimpleNamespace(getMethod=lambda *_: SimpleNamespace(invoke=lambda *_: registry))
    return SimpleNamespace(
        root=SimpleNamespace(cache=cache),
        gateway=SimpleNamespace(new_array=lambda *_: []),
        java=SimpleNamespace(lang=SimpleNamespace(Class=None, Object=None)),
        iceberg=SimpleNamespace(spark=spark),
    )


@pytest.fixture(autouse=True)
def _without_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "find_class", lambda root, _: root.cache)


def stage_and_raise(registry: Registry, error: Exception) -> None:
    with ExitStack() as stack:
        stage(stack, jvm_of(registry), "table", "key", [])
        raise error


RELEASED = ["remove", "removeTasks", "clearRewrite"]


@pytest.mark.parametrize("broken", RELEASED)
def test_a_failing_clean_up_hides_no_error_and_stops_no_other(broken: str) -> None:
    registry = Registry(broken)
    unknown = CommitUnknown.of("ZL331", "nobody knows")
    with pytest.raises(CommitUnknown) as raised:
        stage_and_raise(registry, unknown)
    assert raised.value is unknown
    assert registry.calls == ["add", "stageTasks", *[name for name in RELEASED if name != broken]]


def test_a_failing_clean_up_after_success_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    with ExitStack() as stack:
        stage(stack, jvm_of(Registry("remove")), "table", "key", [])
    assert [record.message.split(" ", 1)[0] for record in caplog.records] == ["ZL305"]


def test_what_was_staged_is_released_when_staging_the_rest_fails() -> None:
    registry = Registry("stageTasks")
    with pytest.raises(Py4JNetworkError), ExitStack() as stack:
        stage(stack, jvm_of(registry), "table", "key", [])
    assert registry.calls == ["add", *RELEASED]
