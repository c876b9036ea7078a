"""Linear maps from model to scores."""
