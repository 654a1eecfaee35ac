from __future__ import annotations

import inspect
import pickle
from pathlib import Path

import pytest

import nearcast as nc
from nearcast import errors

CLASSES = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, nc.NearcastError)]
CODES = {
    "NearcastError": "error",
    "InvalidInput": "invalid-input",
    "UnknownId": "unknown-id",
    "DuplicateId": "duplicate-id",
    "SnapshotError": "snapshot",
    "BrokenBroker": "broken-broker",
    "NestedCall": "nested-call",
    "SetupError": "setup",
}
DOCUMENTED = Path(__file__).parents[1] / "docs" / "errors.md"


def test_codes_are_stable() -> None:
    assert {one.__name__: one.code for one in CLASSES} == CODES
    assert len(set(CODES.values())) == len(CODES)
    assert all(getattr(nc, name) is getattr(errors, name) for name in CODES)


@pytest.mark.parametrize("name", CODES)
def test_every_error_is_drawn_and_documented(name: str) -> None:
    assert name in (errors.__doc__ or "")
    assert f"\n## {CODES[name]}\n" in DOCUMENTED.read_text()
    assert f"`{name}`" in DOCUMENTED.read_text()


def test_errors_are_also_what_a_caller_expects() -> None:
    assert issubclass(nc.InvalidInput, ValueError)
    assert issubclass(nc.UnknownId, LookupError)
    assert issubclass(nc.DuplicateId, nc.InvalidInput)
    assert issubclass(nc.SnapshotError, ValueError)
    assert issubclass(nc.SetupError, RuntimeError)
    assert issubclass(nc.BrokenBroker, RuntimeError)
    assert issubclass(nc.NestedCall, RuntimeError)


@pytest.mark.parametrize("kind", [nc.InvalidInput, nc.UnknownId, nc.DuplicateId])
def test_a_refusal_says_what_was_given_and_survives_pickling(kind: type[nc.InvalidInput]) -> None:
    error = kind("k", 0, "must be >= 1")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert type(one) is kind
        assert str(one) == "k must be >= 1, got 0"
        assert (one.field, one.value, one.rule, one.code) == ("k", 0, "must be >= 1", kind.code)


@pytest.mark.parametrize("kind", [nc.NearcastError, nc.SnapshotError, nc.SetupError, nc.NestedCall])
def test_other_errors_survive_pickling(kind: type[nc.NearcastError]) -> None:
    back = pickle.loads(pickle.dumps(kind("what happened")))
    assert type(back) is kind
    assert str(back) == "what happened"


def test_a_broken_broker_says_what_to_do_and_survives_pickling() -> None:
    error = nc.BrokenBroker("publish", "MemoryError")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert str(one).startswith("publish was stopped by MemoryError while its event was being applied, ")
        assert "Broker.restore" in str(one)
        assert (one.call, one.cause) == ("publish", "MemoryError")


def test_values_are_shown_at_a_readable_length() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert errors.shown("a") == "'a'"
    assert len(errors.shown("a" * 1000)) == 80
    assert errors.shown("a" * 1000).endswith("…")
    assert errors.shown(Shy()) == "<Shy>"
    assert errors.shown(10**5000) == "<int>"
