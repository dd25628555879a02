"""The demo: real processes on a real data folder, with a bad day on purpose.

    stage   a server of its own, in a folder that is removed afterwards, and workers to kill
    acts    one per contract; each plays on the stage and says what it saw

What an act claims it has counted: if a number is not what it should be, the demo fails.
"""
