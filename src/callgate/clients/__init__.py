"""The MCP clients of this machine: where each keeps its servers, and edits that put the gate in front of them.

Nothing here asks or prints: `callgate install` and `callgate uninstall` do. A client's file is edited by span, so
comments, order, line ends and everything else in it stay as they are.
"""

from callgate.clients.entries import Entry
from callgate.clients.files import Source
from callgate.clients.hooks import HOOKS, hook_spots, plan_hook, plan_unhook, wrapped_by_hand
from callgate.clients.known import CLIENTS, Machine, Spot, named, spots
from callgate.clients.plan import Finding, Pinned, Plan, plan_pin, plan_unwrap, plan_wrap
from callgate.clients.records import Record, Records
from callgate.clients.wrapping import Gate, Hint, Word

__all__ = [
    "CLIENTS",
    "HOOKS",
    "Entry",
    "Finding",
    "Gate",
    "Hint",
    "Machine",
    "Pinned",
    "Plan",
    "Record",
    "Records",
    "Source",
    "Spot",
    "Word",
    "hook_spots",
    "named",
    "plan_hook",
    "plan_pin",
    "plan_unhook",
    "plan_unwrap",
    "plan_wrap",
    "spots",
    "wrapped_by_hand",
]
