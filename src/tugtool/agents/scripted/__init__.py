"""An agent that plays a script instead of thinking: whole runs, reproducible, without any model.

`python -m tugtool.agents.scripted SCRIPT`. A program of its own, as any agent is: nothing
else imports it, and docs/agents.md describes the script.
"""
