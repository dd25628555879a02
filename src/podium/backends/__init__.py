"""Our stores, buses and object stores: one folder, one extra, one dependency each."""
