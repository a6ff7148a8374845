"""The number of instructions that a node's own code executes for one bundle, compared with a reviewed number."""
