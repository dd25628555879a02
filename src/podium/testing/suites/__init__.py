"""One suite per kernel contract; each backend takes on all of them."""
