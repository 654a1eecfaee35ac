"""What can be asked of a broker without changing it: results, explanations, estimates, dry runs, maps."""
