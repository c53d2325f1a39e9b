"""schemathesis over the OpenAPI document: no 5xx, no answer that is not documented."""
