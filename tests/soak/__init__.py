"""The long, rough proof: kills by the hundred, power cuts, failing syncs and full disks.

    python -m tests.soak [kill|powercut|fsync|diskfull|all] [--rounds N] [--seed S]

The processes, the workload and the checker are those of `tests.kill`. Each part says what it needs
(root, loop mounts, strace) and fails when that is missing: nothing is skipped.
"""
