"""The command line: parse input, call one operation, show its answer.

Room `cli`: an edge. It imports the rooms below; no room may import it.
"""
