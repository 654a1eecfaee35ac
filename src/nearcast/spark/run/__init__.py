"""`nearcast run`: files and streams through `nearcast.spark`, into folders of updates and rejects."""
