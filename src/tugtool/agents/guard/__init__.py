"""The rules of each role, and the check of tool calls and shell commands against them.

Pure: nothing here reads the environment, starts a process or prints.
"""
