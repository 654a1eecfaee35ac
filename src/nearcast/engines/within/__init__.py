"""Within: AP-Tree."""

from nearcast.engines.within.engine import WithinTree
from nearcast.engines.within.settings import Settings

__all__ = ["Settings", "WithinTree"]
