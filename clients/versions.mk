# The clients that `make clients` tries the plugin with, pinned.
CLAUDE_CODE := @anthropic-ai/claude-code@2.1.197
CODEX := @openai/codex@0.166.0
SKILLS_REF := skills-ref==0.1.1
