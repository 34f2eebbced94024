"""The loop that carries a plan out with agents, one step at a time for each worker.

`loop` starts the workers and ends the run, `worker` finds the next step, `step` carries it out.

Room `implement`: it imports every room below; cli may import it.
"""
