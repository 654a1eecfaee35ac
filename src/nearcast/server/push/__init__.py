"""Whoever is attached to a subscription is told of its updates: by WebSocket, SSE or webhook."""
