"""Comparable pairs: which items are compared (order), the losses (oracle), and the accuracy."""
