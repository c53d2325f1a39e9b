"""Keys, sealed test sets and what is read from them: the only place that encrypts or decrypts.

Nothing is imported here, so that a command pays only for the module it uses.
"""
