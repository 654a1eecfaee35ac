"""`Similar`: every message whose words and place together come near enough, by the prefixes of STAMP."""

from nearcast.engines.similar.engine import SimilarStamp
from nearcast.engines.similar.settings import FILTERS, STRATEGIES, Settings

__all__ = ["FILTERS", "STRATEGIES", "Settings", "SimilarStamp"]
