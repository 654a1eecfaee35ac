"""AP+-Tree: subscriptions that move, and the live messages that they find in the leaves they come to."""
