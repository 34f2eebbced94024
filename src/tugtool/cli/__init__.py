"""The command line: parse input, call one operation, show its answer."""
