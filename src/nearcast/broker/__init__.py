"""The front door: one broker over the engines of all query kinds."""

from nearcast.broker.broker import Broker

__all__ = ["Broker"]
