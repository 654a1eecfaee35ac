"""The load driver of `nearcast serve`: another process on the loopback that publishes, listens and measures.

    python -m bench.serve ingest

Each case starts a server of its own with compiled kernels in an empty folder, and prints one line of figures. See
`cases` for what each one does; docs/server.md has the figures.
"""
