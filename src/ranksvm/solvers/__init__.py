"""Solvers of F(w) = 1/2 <w, w> + R(w); they know nothing about ranking."""
