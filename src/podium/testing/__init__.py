"""Shipped proof: what a backend, or a user, needs to check that the promises hold."""
