"""Real processes that are killed with -9 at any moment, and one checker of what they left behind.

    program     an engine as a user would run it, with a workload that says what it does
    history     what each operation was told: start, end, ok, fail or unknown
    child       one such process, from outside: wait for what it says, kill, pause, stop it
    fleet       a store and its processes, over many lives
    facts       what the tables hold, asked with SQL of our own
    checker     history, outside effects and facts compared

`podium up` itself is killed under load from clients:

    house       the command from outside, and everybody it has started
    line        one connection, which hides nothing from its user
    callers     submitters and workers over HTTP, and the book of what they were told
    promises    the book, the server's own answers and its file compared
    lives       one data folder, many lives

`tests/soak` runs the same with hundreds of kills, and with power cuts and failing disks.
"""
