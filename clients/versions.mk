# The clients that `make clients` tries the plugin and the MCP server with, pinned.
CLAUDE_CODE := @anthropic-ai/claude-code@2.1.197
CODEX := @openai/codex@0.166.0
GEMINI := @google/gemini-cli@0.61.0
OPENCODE := opencode-ai@1.18.33
# It needs a newer Node than the clients do.
INSPECTOR := @modelcontextprotocol/inspector@2.12.0 node@22.23.3
SKILLS_REF := skills-ref==0.1.1
