"""The team server: REST API, pages, sign-in. It translates; the use cases are in `service`."""
