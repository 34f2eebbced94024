"""What is known of agents: their roles, contracts, prompts, answers and command lines.

Nothing here knows the state of a plan. Import the module you need: `contracts`, `answers`,
`usage`, `prompts`, `presets`.
"""
