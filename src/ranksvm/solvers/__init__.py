"""Solvers of F(w) = 1/2 <w, w> + R(w), and descents for what is not convex; ignorant of ranking."""
