"""The state's home. Only modules in here know a database engine."""
