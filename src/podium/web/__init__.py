"""The pages: rendered here, live by server-sent events, readable without a script."""
