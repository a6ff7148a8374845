"""The conversation with a node over blocking sockets."""
