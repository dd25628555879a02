"""The same program on PostgreSQL, NATS and S3: real servers on loopback, and a bad day across them.

scripts/fleet           start everything, run the smoke test, stop
scripts/fleet --stay    leave it running to look around, until Ctrl-C
"""
