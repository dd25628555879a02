"""The tests: `unit` for one module, `conformance` for one contract on every backend."""
