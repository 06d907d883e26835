"""The MCP clients of this machine: where each keeps its servers, and edits that put the gate in front of them.

Nothing here asks or prints: `callgate install` and `callgate uninstall` do. A client's file is edited by span, so
comments, order, line ends and everything else in it stay as they are.
"""

from callgate.clients.files import InstallRecord, InstallRecords, Source
from callgate.clients.hooks import HOOKS, hook_locations, plan_hook, plan_unhook, wrapped_by_hand
from callgate.clients.locations import CLIENTS, ConfigLocation, Machine, config_locations, location_of
from callgate.clients.plan import GateCommand, Hint, Pinned, Plan, PlannedServer, Word, plan_pin, plan_unwrap, plan_wrap
from callgate.clients.servers import ServerEntry

__all__ = [
    "CLIENTS",
    "HOOKS",
    "ConfigLocation",
    "GateCommand",
    "Hint",
    "InstallRecord",
    "InstallRecords",
    "Machine",
    "Pinned",
    "Plan",
    "PlannedServer",
    "ServerEntry",
    "Source",
    "Word",
    "config_locations",
    "hook_locations",
    "location_of",
    "plan_hook",
    "plan_pin",
    "plan_unhook",
    "plan_unwrap",
    "plan_wrap",
    "wrapped_by_hand",
]
