"""The command line: one module per command, and the page that a run can leave behind."""
