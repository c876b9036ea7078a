"""Comparable pairs: what is compared (order), what it costs (oracle), how many are right."""
