"""A broker as one file: written, read again, and checked before a kernel sees a number of it."""
