"""The virtual world: the real kernel on the real SQLite store, on the worst day of its life.

One seed is one history. Processes die and are paused between any two lines, calls are lost before
and after their commit, bells are not heard, clocks jump; and the whole of it, thousands of virtual
seconds, runs in a tenth of a real one, on one thread, the same way every time.

    loop        virtual time; every choice of what runs next is one draw
    world       the shared store, the processes, and the trace of what happened
    store       what a process sees of the store: a connection that can fail
    nemesis     what goes wrong in this seed, and when
    checkers    what must hold after every transaction; they share no code with the kernel
    scenarios   who lives in the world: workers, owners, publishers
    mutants     planted bugs that the checkers must find, or the gate fails

`python -m podium.sim run --seeds 1000` looks for trouble; `replay` shows one seed as a table.
"""
