"""The implement loop: workers that carry a plan out with agents, one step at a time each.

`fleet` starts them and ends the run, `worker` finds the next step, `step` carries it out.
"""
