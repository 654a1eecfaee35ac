"""The four kinds of query as numbers: the only encoding of them that there is."""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """A kind of query; its number is used in tables and kernels, its label in JSON and in messages."""

    WITHIN = 0
    SIMILAR = 1
    TOPK = 2
    NEAREST = 3

    @property
    def label(self) -> str:
        """The name in the JSON form, such as "within"."""
        return self.name.lower()

    @classmethod
    def of(cls, label: str) -> Kind:
        """The kind with this label."""
        return cls[label.upper()]


LABELS = tuple(kind.label for kind in Kind)
