"""Other tools for the same work, measured beside Tugtool in one run.

`npm_tools.py`, `pypi_tools.py` and `ours.py` define how each command line tool does the same,
`queues.py` how each queue of a Python program does. `speed.py` and `contests.py` measure,
`measuring.py` and `contending.py` make tables of it, `judging.py` judges.
"""
