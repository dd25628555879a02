"""Every backend takes on every suite."""
