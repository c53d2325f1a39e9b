"""Other people's tools: one module each, and their packages are imported only when used."""
