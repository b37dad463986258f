"""Figures as ratios to a named baseline in the same run; `make bench`."""
