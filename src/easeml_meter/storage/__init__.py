"""Where the books are kept: one contract, one SQL implementation, migrations."""
