"""An issue tracker, with the names and annotations of public ones: `python tracker.py STATE.json`."""

from __future__ import annotations

import json
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

from sessions.servers import state as stored

mcp = MCPServer("issue-tracker", version="0.9.1")

Owner = Annotated[str, Field(description="Repository owner")]
Repo = Annotated[str, Field(description="Repository name")]
Number = Annotated[int, Field(description="Issue number")]


def _reads(title: str) -> ToolAnnotations:
    return ToolAnnotations(title=title, read_only_hint=True)


def _writes(title: str) -> ToolAnnotations:
    return ToolAnnotations(title=title, read_only_hint=False)


def _find(known: dict[str, Any], number: int) -> dict[str, Any]:
    for one in known["issues"]:
        if one["number"] == number:
            found: dict[str, Any] = one
            return found
    raise ValueError(f"404 Not Found: issue {number}")


def _brief(issue: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in issue.items() if key not in ("body", "comments")} | {
        "comments": len(issue["comments"])
    }


def _shown(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False)


@mcp.tool(annotations=_reads("List issues"), structured_output=False)
def list_issues(
    owner: Owner,  # noqa: ARG001
    repo: Repo,  # noqa: ARG001
    state: Annotated[str, Field(description="open, closed or all")] = "open",
    labels: Annotated[list[str] | None, Field(description="Only issues with all of these labels")] = None,
) -> str:
    """List issues in a GitHub repository."""
    found = [one for one in stored.read()["issues"] if state in ("all", one["state"])]
    return _shown([_brief(one) for one in found if set(labels or []) <= set(one["labels"])])


@mcp.tool(annotations=_reads("Search issues"), structured_output=False)
def search_issues(query: Annotated[str, Field(description="Search query using GitHub issues search syntax")]) -> str:
    """Search for issues in GitHub repositories."""
    words = [word for word in query.lower().split() if ":" not in word]
    found = [one for one in stored.read()["issues"] if all(word in _shown(one).lower() for word in words)]
    return _shown({"total_count": len(found), "items": [_brief(one) for one in found]})


@mcp.tool(annotations=_reads("Get issue details"), structured_output=False)
def get_issue(owner: Owner, repo: Repo, issue_number: Number) -> str:  # noqa: ARG001
    """Get details of a specific issue in a GitHub repository."""
    issue = _find(stored.read(), issue_number)
    return _shown(_brief(issue) | {"body": issue["body"]})


@mcp.tool(annotations=_reads("Get issue comments"), structured_output=False)
def get_issue_comments(owner: Owner, repo: Repo, issue_number: Number) -> str:  # noqa: ARG001
    """Get comments for a specific issue in a GitHub repository."""
    return _shown(_find(stored.read(), issue_number)["comments"])


@mcp.tool(annotations=_reads("List labels"), structured_output=False)
def list_labels(owner: Owner, repo: Repo) -> str:  # noqa: ARG001
    """List the labels of a repository."""
    return _shown(stored.read()["labels"])


@mcp.tool(annotations=_writes("Open new issue"), structured_output=False)
def create_issue(
    owner: Owner,  # noqa: ARG001
    repo: Repo,  # noqa: ARG001
    title: Annotated[str, Field(description="Issue title")],
    body: Annotated[str, Field(description="Issue body content")] = "",
    labels: Annotated[list[str] | None, Field(description="Labels to apply to this issue")] = None,
    assignees: Annotated[list[str] | None, Field(description="Usernames to assign to this issue")] = None,
) -> str:
    """Create a new issue in a GitHub repository."""
    with stored.changing() as known:
        number = max(one["number"] for one in known["issues"]) + 1
        issue = {"number": number, "title": title, "state": "open", "user": known["owner"], "body": body}
        issue |= {"labels": labels or [], "assignees": assignees or [], "comments": []}
        known["issues"].append(issue)
    return _shown(_brief(issue))


@mcp.tool(annotations=_writes("Add comment to issue"), structured_output=False)
def add_issue_comment(
    owner: Owner,  # noqa: ARG001
    repo: Repo,  # noqa: ARG001
    issue_number: Number,
    body: Annotated[str, Field(description="Comment content")],
) -> str:
    """Add a comment to a specific issue in a GitHub repository."""
    with stored.changing() as known:
        comment = {"id": stored.new_id(known, "ic_"), "user": known["owner"], "body": body}
        _find(known, issue_number)["comments"].append(comment)
    return _shown(comment)


@mcp.tool(annotations=_writes("Edit issue"), structured_output=False)
def update_issue(
    owner: Owner,  # noqa: ARG001
    repo: Repo,  # noqa: ARG001
    issue_number: Number,
    title: Annotated[str | None, Field(description="New title")] = None,
    body: Annotated[str | None, Field(description="New description")] = None,
    state: Annotated[str | None, Field(description="New state: open or closed")] = None,
    labels: Annotated[list[str] | None, Field(description="New labels")] = None,
    assignees: Annotated[list[str] | None, Field(description="New assignees")] = None,
    milestone: Annotated[str | None, Field(description="New milestone")] = None,
) -> str:
    """Update an existing issue in a GitHub repository."""
    given: dict[str, Any] = {"title": title, "body": body, "state": state, "labels": labels}
    given |= {"assignees": assignees, "milestone": milestone}
    with stored.changing() as known:
        issue = _find(known, issue_number)
        issue |= {key: value for key, value in given.items() if value is not None}
    return _shown(_brief(issue))


@mcp.tool(annotations=ToolAnnotations(title="Delete issue", destructive_hint=True), structured_output=False)
def delete_issue(owner: Owner, repo: Repo, issue_number: Number) -> str:  # noqa: ARG001
    """Permanently delete an issue with its comments. Needs admin rights."""
    with stored.changing() as known:
        known["issues"].remove(_find(known, issue_number))
    return _shown({"deleted": issue_number})


if __name__ == "__main__":
    mcp.run("stdio")
