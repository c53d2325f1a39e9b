"""Fourteen meters and 79 plans, recorded before the code beneath them was rebuilt.

`meters/` has what people did: settings, plain rows and submissions. It is replayed with a fixed
clock, key, ids and secret of drawn edges. What came of it is compared with two layers:

- `answers/` and `plans.json`: labels planned, answers, what is left after each of them, the losses
  that a release publishes. **Never edited**, but line by line where an issue names the change.
- `shown/`: the JSON of plan, status, history and audit, the help of all commands, the document of
  the API. It changes with what is shown. Once that was meant, write it anew and read the diff:

    .venv/bin/python -m tests.recorded
"""
