"""Devices that can find the violated pairs; all behind :class:`ranksvm.pairs.order.PairBackend`."""
