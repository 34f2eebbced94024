"""The MCP server: the same commands as tools, for agents that know no command line.

Over standard input and output (`stdio`), and at `POST /mcp` of the HTTP server (`http`).
"""
