"""Inputs that survive a crash, and all that follows from them: broker, bodies, updates, answers."""
