"""How columns write times that were not given."""

from __future__ import annotations

FOREVER = 2**63 - 1  # expiry of what never expires
MISSING = -(2**63)  # a `ts` that was not given
