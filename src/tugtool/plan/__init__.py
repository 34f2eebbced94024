"""Plans: Markdown text into values, rules over them, and which plans there are."""
