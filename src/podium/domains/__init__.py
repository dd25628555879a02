"""Side by side: each domain decides and commits for one contract, and never sees the others."""
