"""Plans: the parser of their Markdown, the rules for them, and the list of plans.

Room `plan`: pure but for `catalog` and `exports`. It imports errors, system and git (for
Repository); every room above may import it.
"""
