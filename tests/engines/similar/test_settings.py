"""What can be set, and what is refused."""

from __future__ import annotations

import pytest

from nearcast.engines.similar import FILTERS, StampSettings
from nearcast.errors import InvalidInput


@pytest.mark.parametrize(("field", "value", "rule"), [
    ("fanout", 7, "must be >= 8"),
    ("fanout", 65536, "must be <= 65535"),
    ("fanout", 64.0, "must be a whole number"),
    ("fanout", True, "must be a whole number"),
    ("filters", "HI", "must be one of SP, SP+HI"),
    ("strategy", "best", "must be one of cost, verify, filter"),
])  # fmt: skip
def test_what_cannot_be_set(field: str, value: object, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule.replace("+", r"\+")) as caught:
        StampSettings(**{field: value})
    assert caught.value.field == field


def test_filters_say_what_is_on() -> None:
    on = {
        name: (s.regions, s.region_prefixes, s.text_prefixes) for name in FILTERS for s in [StampSettings(filters=name)]
    }
    assert on == {
        "SP": (False, False, False),
        "SP+HI": (True, False, False),
        "SP+RP+HI": (True, True, False),
        "SP+ST+HI": (True, False, True),
        "SP+RP+ST+HI": (True, True, True),
    }
