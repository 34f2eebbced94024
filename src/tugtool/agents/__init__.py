"""Agent CLIs: their roles, contracts, prompts, answers and command lines; the guard; the plugin.

Room `agents`: it does not use git or the record. It imports errors and system; every room above
may import it.
"""
