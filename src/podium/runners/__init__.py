"""What runs work: it takes from a desk, calls what users wrote, and reports. It never sees the store."""
