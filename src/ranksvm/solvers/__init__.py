"""Solvers for F(w) = 1/2 <w, w> + R(w) with convex R, independent of ranking."""
