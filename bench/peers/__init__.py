"""The peers, each set up as its own documentation advises for speed."""
