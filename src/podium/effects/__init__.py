"""What we do out there for users: calls, scripts, shells. Each behind a guard of its own.

Whoever asks for an effect chooses where it goes and what comes back may come from anybody. So every
effect here has limits on time, bytes and number, and ends in a value or in an error with a reason.
"""
