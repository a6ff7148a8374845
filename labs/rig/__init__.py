"""The rig of every lab and whole-program test: nodes, networks, yardsticks, a terminal."""
