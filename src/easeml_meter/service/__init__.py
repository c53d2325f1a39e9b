"""The use cases, one transaction each; roles are checked here, deny by default."""
