"""The virtual world itself: its loop, its faults, its checkers."""
