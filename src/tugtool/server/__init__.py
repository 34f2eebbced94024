"""The HTTP server: one path for each command, for pages, scripts and workers elsewhere.

Room `server`: an edge beside `cli`. It imports the rooms below, and from cli the table of commands
and what runs them; only cli may import it. `mcp` has the same commands as tools.
"""
