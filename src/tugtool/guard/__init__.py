"""What each role may do: the rules, and who holds a tool call or a shell command against them.

Pure: nothing here reads the environment, starts a process or prints.
"""
