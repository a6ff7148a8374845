"""Demonstration, measurements and interoperability; each package is one command of the Makefile."""
