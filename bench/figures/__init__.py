"""One file per figure: workload, sweep, series and expected shape, and nothing else. Names never change."""
