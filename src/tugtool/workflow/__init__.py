"""The record and git together: one function for each command, for every edge.

Arguments are plain; answers and warnings are values.

Room `workflow`: it imports every room below; implement and cli may import it.
"""
