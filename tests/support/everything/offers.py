"""The resources, prompts, completions and methods of its own that the everything server has."""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from support.everything.abilities import META_DOWN, Context

NOTE: Final = "memo://note"
RESOURCES: Final = [types.Resource(uri=NOTE, name="note", mime_type="text/plain")]
TEMPLATES: Final = [types.ResourceTemplate(uri_template="memo://{word}", name="word")]
PROMPTS: Final = [
    types.Prompt(name="greet", arguments=[types.PromptArgument(name="whom", required=True)]),
]
WORDS: Final = ("pair", "pare", "pear", "plum")
REFUSAL_CODE: Final = -31337
REFUSAL_DATA: Final = {"nested": {"list": [1, 2.5, None, True, "ü"]}, "reason": "because"}


async def list_resources(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=list(RESOURCES))


async def list_templates(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=list(TEMPLATES))


async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    text = f"the text of {params.uri}"
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])


async def list_prompts(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=list(PROMPTS))


async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    text = f"Greet {(params.arguments or {})['whom']}."
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(messages=[message], description=params.name)


async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    found = [word for word in WORDS if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=found, total=len(found), has_more=False))


async def acknowledge(ctx: Context, params: types.RequestParams) -> types.EmptyResult:
    return types.EmptyResult()


async def mirror(ctx: Context, params: types.RequestParams) -> dict[str, Any]:
    """`dev.example/mirror`: every member of the params comes back, known to the protocol or not."""
    sent = dict(ctx.params or {})
    sent.pop("_meta", None)
    return {
        "mirrored": sent,
        "_meta": {META_DOWN: dict(ctx.meta or {}).get("dev.example/up")},
        "unheardOf": [1, {"a": None}],
    }


async def refuse(ctx: Context, params: types.RequestParams) -> dict[str, Any]:
    """`dev.example/refuse`: an error with a code, a message and data of its own."""
    raise MCPError(REFUSAL_CODE, "refused, politely: ü", REFUSAL_DATA)
