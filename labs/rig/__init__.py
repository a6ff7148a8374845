"""What every lab and whole-program test is rigged with: nodes, networks, yardsticks, a terminal."""
