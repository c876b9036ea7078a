"""Programs that feed readers with hostile files for as long as they are given time."""
