"""Whole-program tests and the rules that hold the house together; `python3 -m tests.run` runs them."""
