"""Backends that find violated pairs; see :class:`ranksvm.pairs.order.PairBackend`."""
