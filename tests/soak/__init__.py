"""The long, rough proof: kills by the hundred, power cuts, failing syncs, full disks and crowds.

    python -m tests.soak [kill|up|powercut|fsync|diskfull|connections|loris|overload|all] [--rounds N] [--seed S]

The processes, the workload and the checker are those of `tests.kill`. Each part says what it needs
(root, loop mounts, strace) and fails when that is missing: nothing is skipped.
"""
