"""The machine, one outside thing per module: files, clock, processes, settings.

Room `system`: it imports errors; every room above may import it.
"""
