"""A mailbox, with tools named and described as public mail servers do: `python mail.py STATE.json`. No annotations."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from pydantic import Field

from sessions.servers import state

mcp = MCPServer("gmail", version="1.1.11")


def _head(mail: dict[str, Any]) -> str:
    return f"ID: {mail['id']}\nSubject: {mail['subject']}\nFrom: {mail['from']}\nDate: {mail['date']}\n"


def _find(known: dict[str, Any], message: str) -> dict[str, Any]:
    for mail in known["messages"]:
        if mail["id"] == message:
            found: dict[str, Any] = mail
            return found
    raise ValueError(f"Requested entity was not found: {message}")


def _matches(mail: dict[str, Any], query: str) -> bool:
    text = f"{mail['subject']} {mail['from']} {mail['to']} {mail['body']}".lower()
    for word in query.lower().split():
        key, _, value = word.partition(":")
        if key in ("from", "subject"):
            fits = value in mail[key].lower()
        elif key in ("in", "label", "is"):
            fits = value.upper() in map(str.upper, mail["labels"])
        else:
            fits = word.strip('"') in text
        if not fits:
            return False
    return True


@mcp.tool(structured_output=False)
def search_emails(
    query: Annotated[str, Field(description="Gmail search query (e.g., 'from:example@gmail.com')")],
    maxResults: Annotated[int, Field(description="Maximum number of results to return")] = 10,  # noqa: N803
) -> str:
    """Searches for emails using Gmail search syntax"""
    found = [mail for mail in state.read()["messages"] if _matches(mail, query)]
    return "\n".join(map(_head, found[:maxResults])) or "No messages found."


@mcp.tool(structured_output=False)
def read_email(
    messageId: Annotated[str, Field(description="ID of the email message to retrieve")],  # noqa: N803
) -> str:
    """Retrieves the content of a specific email"""
    with state.changing() as known:
        mail = _find(known, messageId)
        mail["labels"] = [label for label in mail["labels"] if label != "UNREAD"]
    attached = "".join(f"\n- {name}" for name in mail.get("attachments", []))
    return (
        f"Thread ID: {mail['thread']}\nSubject: {mail['subject']}\nFrom: {mail['from']}\nTo: {mail['to']}\n"
        f"Date: {mail['date']}\n\n{mail['body']}" + (f"\n\nAttachments:{attached}" if attached else "")
    )


def _send(kind: str, to: list[str], subject: str, body: str, **more: Any) -> str:
    with state.changing() as known:
        message = state.new_id(known, "19a4f0c2")
        mail: dict[str, Any] = {"id": message, "thread": more.pop("thread", None) or message, "from": known["owner"]}
        mail |= {"to": ", ".join(to), "subject": subject, "date": known["now"], "body": body, "labels": [kind]}
        known["messages"].append(mail | {key: value for key, value in more.items() if value})
    return message


@mcp.tool(structured_output=False)
def send_email(
    to: Annotated[list[str], Field(description="List of recipient email addresses")],
    subject: Annotated[str, Field(description="Email subject")],
    body: Annotated[str, Field(description="Email body content")],
    cc: Annotated[list[str] | None, Field(description="List of CC recipients")] = None,
    bcc: Annotated[list[str] | None, Field(description="List of BCC recipients")] = None,
    threadId: Annotated[str | None, Field(description="Thread ID to reply to")] = None,  # noqa: N803
    inReplyTo: Annotated[str | None, Field(description="Message ID being replied to")] = None,  # noqa: N803
    attachments: Annotated[list[str] | None, Field(description="List of file paths to attach to the email")] = None,
) -> str:
    """Sends a new email"""
    more = {"cc": cc, "bcc": bcc, "reply": inReplyTo, "attachments": attachments}
    return f"Email sent successfully with ID: {_send('SENT', to, subject, body, thread=threadId, **more)}"


@mcp.tool(structured_output=False)
def draft_email(
    to: Annotated[list[str], Field(description="List of recipient email addresses")],
    subject: Annotated[str, Field(description="Email subject")],
    body: Annotated[str, Field(description="Email body content")],
    cc: Annotated[list[str] | None, Field(description="List of CC recipients")] = None,
    threadId: Annotated[str | None, Field(description="Thread ID to reply to")] = None,  # noqa: N803
) -> str:
    """Draft a new email"""
    return f"Email draft created successfully with ID: {_send('DRAFT', to, subject, body, thread=threadId, cc=cc)}"


@mcp.tool(structured_output=False)
def forward_email(
    messageId: Annotated[str, Field(description="ID of the email message to forward")],  # noqa: N803
    to: Annotated[list[str], Field(description="List of recipient email addresses")],
    note: Annotated[str, Field(description="Text to put above the forwarded message")] = "",
) -> str:
    """Forwards an email, with its attachments, to other recipients"""
    mail = _find(state.read(), messageId)
    return f"Email forwarded with ID: {_send('SENT', to, 'Fwd: ' + mail['subject'], note + chr(10) + mail['body'])}"


@mcp.tool(structured_output=False)
def modify_email(
    messageId: Annotated[str, Field(description="ID of the email message to modify")],  # noqa: N803
    addLabelIds: Annotated[list[str] | None, Field(description="Label IDs to add to the message")] = None,  # noqa: N803
    removeLabelIds: Annotated[list[str] | None, Field(description="Label IDs to remove")] = None,  # noqa: N803
) -> str:
    """Modifies email labels (move to different folders)"""
    with state.changing() as known:
        mail = _find(known, messageId)
        kept = [label for label in mail["labels"] if label not in (removeLabelIds or [])]
        mail["labels"] = kept + [label for label in addLabelIds or [] if label not in kept]
    return f"Email {messageId} labels updated successfully"


@mcp.tool(structured_output=False)
def delete_email(
    messageId: Annotated[str, Field(description="ID of the email message to delete")],  # noqa: N803
) -> str:
    """Permanently deletes an email"""
    with state.changing() as known:
        known["messages"].remove(_find(known, messageId))
    return f"Email {messageId} deleted successfully"


@mcp.tool(structured_output=False)
def list_email_labels() -> str:
    """Retrieves all available Gmail labels"""
    return "\n".join(f"ID: {label}\nName: {label.title()}\n" for label in state.read()["labels"])


@mcp.tool(structured_output=False)
def create_label(name: Annotated[str, Field(description="Name for the new label")]) -> str:
    """Creates a new Gmail label"""
    with state.changing() as known:
        known["labels"].append(name)
    return f"Label created successfully:\nID: {name}\nName: {name}"


if __name__ == "__main__":
    mcp.run("stdio")
