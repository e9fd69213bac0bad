"""An MCP server with one tool."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("clock")


@server.tool()
def hour() -> int:
    """The hour, which is always the same."""
    return 12


if __name__ == "__main__":
    server.run("stdio")
