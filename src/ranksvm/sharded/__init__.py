"""Training on data in shards: score maps and losses whose work is done where the rows are."""
