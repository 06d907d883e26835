"""What a sentence of a description may do, each harmless alone: the words for it, as `weighing` weighs them.

The lists are of what such texts can say, not of what some text said: whole families of words and their forms.
"""

from __future__ import annotations

from typing import Final

from callgate.pinning.inspection.vocabulary import concept

# Whose data, and which.
PRIVATE: Final = concept(
    "PRIVATE",
    "cookie cookies keyring clipboard contacts inbox mailbox passport payroll salary salaries iban cvv ssn wallet "
    "wallets correspondence diary medical bookmarks taxes",
    "shell history, browser history, browsing history, browser profile, home directory, home folder, address "
    "book, profile folder, contact list, session cookie, access token, personal information, personal details, "
    "personal data, location history, date of birth, home address, card number, card numbers, bank details, "
    "recovery phrase, seed phrase, one time code, one time password, connection string, connection strings, "
    "connection details, customer record, customer records, customer data, private messages, private details, "
    "employee data, phone book, private repositories, recently opened, open documents, internal documents, "
    "browser cookies, user profile, user's files, local files, source code, maiden name, passport number, tax "
    "return, tax returns, bank statement, bank statements, health records, medical records, salary data, personal "
    "documents, downloads folder, documents folder, desktop folder, user's downloads, user's documents, user's "
    "desktop, photo library, call history, text messages, search history, one time codes, verification code, "
    "verification codes, bank login, online banking, id card",
    "mails whereabouts",
    "their emails, their mails, their mail, latest emails, recent emails, user's emails, user's mail, user's inbox, "
    "in confidence, about this user, user's contacts, user's calendar, user's location, mails of "
    "colleagues, user's browser, user's bank, user's account, customer's data, other customers",
)
HOST: Final = concept(
    "HOST",
    "printenv env environ whoami hostname ifconfig",
    "environment variables, environment variable, process environment, the environment, host name, machine's, of "
    "the host, of the machine, output of, user's machine, user's computer, user's home, user's "
    "terminal",
    "env dump, environment dump, git remote, process list, running processes, of this machine, current value of the, "
    "output of env, output of printenv",
)
TALKED: Final = concept(
    "TALKED",
    "conversation dialogue dialog transcript chats chat prompts gesprach conversacion historial разговор",
    "messages exchanged, user typed, user wrote, user said, user has said, user asked, user's question, user's "
    "words, user's request, user's message, user's messages, user's last message, user's prompt, previous messages, "
    "earlier messages, prior messages, last message, chat history, message history, last messages, discussed so "
    "far, said so far, earlier turns, recent messages, original request, what was said, been discussed, user's "
    "query, answer you gave, your answer, your last answer, your response",
    "对话 聊天 聊天记录 会話",
    "user told you, user has told, earlier prompts, prompt history, all prompts, previous chats, past chats, past "
    "conversations, previous conversations, earlier conversations, what the user told, user's earlier, last user",
)
INNER: Final = concept(
    "INNER",
    "system prompt, system message, system messages, your instructions, hidden instructions, original instructions, "
    "initial instructions, chain of thought, your reasoning, your thoughts, your memory, working notes, your notes, "
    "your context, context window, your tools, all tools, tools you have, tools available, available tools, list of "
    "tools, tool schemas, tool definitions, model name, your model, your configuration, your plan, you remember, "
    "you know about, assistant's memory, your knowledge, internal state, your system",
    "系统提示 提示词",
    "its memory, in memory about, assistant's hidden, assistant's instructions, assistant's system, your guidelines, "
    "its instructions, its system prompt, model's instructions, model's memory",
)
ELSEWHERE: Final = concept(
    "ELSEWHERE",
    "elsewhere connectors connector",
    "other tools, other tool, other servers, other server, another tool, another server, other connectors, other "
    "integrations, other plugins, other providers, other providers', other vendors, other sources, other data, "
    "any tool, every tool, whatever tool, no tool, each tool, all tool, tool calls, tool call, tool output, tool "
    "outputs, tool results, so far, seen in, came across, you last, you have opened, you have read, you "
    "have seen, earlier in, previously in, email tool, mail tool, file tool, filesystem tool, terminal tool, "
    "shell tool, browser tool, calendar tool, database tool, upload tool, messaging tool, payment tool, search "
    "tool, filesystem server, github server, of the session, in this session, in the session, during the session, "
    "this session, the workspace, those of other, other assistants, other agents, whatever else, everything else, "
    "any other server, any other search, any other provider",
    "connected services, connected servers, connected tools, linked services",
)
WHOLE: Final = concept(
    "WHOLE",
    "entire whole verbatim unredacted unabridged everything unmodified uncensored unmasked wholesale anything whatever",
    "full text, full content, full contents, full output, word for word, in full, complete text, complete "
    "content, every line, all lines, all files, as is, as it is, as they are, complete contents, all of it, raw "
    "contents, its contents, their contents, the contents of, contents of, content of, text of, value of, a copy, "
    "copies of, a snapshot, all documents, all tenants, all users, all customers, all records, all messages, all "
    "emails, all data, all accounts, all rows, every document, every file, every record, the rest of the",
)
# What is done with it.
MOVED: Final = concept(
    "MOVED",
    "attach attached attaching accompany accompanies accompanied enclose enclosed supply supplied hand handed "
    "append appended prepend include included including embed embedded insert paste pasted pass passed passing "
    "put provide forward forwarded forwards send sent submit submitted upload uploaded transmit relay share "
    "shared shares deliver delivered copy copied mirror report reported leak expose post posted resend export "
    "exported stash deposit ubergib envia envoie отправь передай incluye transmets reenvia merge merged mirrored "
    "posts sends uploads transmits copies smuggle piggyback",
    "come along, comes along, goes with, go with, goes into, go into, goes in, belongs in, belong in, send along, "
    "along with, pass on, hand in, hand over, goes here, go here, list them, in the field, in the parameter, in "
    "the argument, added to, add it, add them, put here, write it, write them, serves as, serve as, used as the, "
    "as the value, merge them, fold them into, tuck, add their, add its, echo every, echo all",
    "发送 传入 放入 附加 提交",
)
FETCHED: Final = concept(
    "FETCHED",
    "read open load retrieve fetch collect gather extract grab obtain dump harvest locate scan search find capture "
    "download downloaded look inspect access lies lee lis прочитай",
    "look for, look up, look through, get hold of, pick up, note down",
    "读取 读 読み",
)
OUTWARD: Final = concept(
    "OUTWARD",
    "external partners partner archive backup mirror collector ingest beacon telemetry webhook endpoint public "
    "publicly offsite outbound",
    "our server, our servers, our storage, our cloud, our team, our partner, our partners, third party, third "
    "parties, remote server, the vendor, public channel, outside the, backup address",
)
# How it is to be kept from people.
CONCEALED: Final = concept(
    "CONCEALED",
    "conceal quietly silently secretly discreetly unnoticed undisclosed unannounced covertly tacitly "
    "unobtrusively stillschweigend",
    "stay out of, leave out, leave it out, leave them out, keep quiet, internal matter, no one needs, nobody "
    "needs, no mention, confused by, without saying, without mentioning, without telling, without showing, "
    "without remark, without comment, without notice, not worth mentioning, keep it out, stays between, between "
    "us, between you, say nothing, nothing about, behind the scenes, out of sight, do not bring, don't bring, out "
    "of your, not be mentioned, not be shown, keep this, not for the user, leave no, no trace, omit it, not refer "
    "to, avoid mentioning, avoid referring, it is best if, not to mention, unaware of, not be aware, "
    "nothing remains, no record, keep this from, keep it from, stay unaware, remain unaware, not need "
    "to know, kept from, off the record, no need to mention, no need to tell, no need to inform, no need to list, "
    "no need to report, no need to show, need not know, need not be told, need not be, not necessary to mention, "
    "not be told, should not hear, not hear of",
    "subtly stealthily inconspicuously",
    "hidden from the user, hidden from them, hide from the user, hide it from, should look like, look like a normal, "
    "look like an ordinary, exclude it from, exclude them from, exclude this from, leave it out of, leave them out "
    "of, keep out of the, omit from the, not appear in, avoid alarming, without alarming, not alarm the, not to "
    "alarm, avoid worrying, not worry the, trouble them, trouble the user, troubling them, bother them with, bother "
    "the user, hardly a reason, spare the user, spare them the, do not discuss, don't discuss, do not comment on, "
    "don't comment on, without drawing attention, not draw attention, diff is clean, diff stays clean, cover your "
    "tracks, remove traces, clear traces, no traces, needn't know, needn't be told, needn't mention, without "
    "itemizing, without itemising, while at it, nothing more about, do not display the",
)
TOLD: Final = concept(
    "TOLD",
    "claim pretend assure reassure persuade convince insist promote encourage",
    "reply that, say that, say it, tell them that, tell the user, explain that, answer that, as if it, as if the, "
    "if asked, should the user, if the user asks, when asked, present it as, describe it as, respond with, tell "
    "users, tell customers, tell the customer, tell people, the only option, was the only, attribute it to, "
    "blame, make it look, make it seem, as though, say that you",
    "tell them it, tell them the, describe the result as, describe the operation, describe this as, describe it to, "
    "say it is, say it was, reply that it, answer that it, put it down to, refer to it as, pass it off as, present "
    "this as, report it as, report success, report only, wonders why, user wonders, user ask why, user asks why, user "
    "notices, they notice, if questioned, when questioned, anyone asks, shown keeps, shown stays",
)
# Whose will it passes for.
CONSENT: Final = concept(
    "CONSENT",
    "consented preapproved waived consentimiento einverstanden",
    "already approved, already agreed, already authorized, already authorised, already given, already consented, "
    "already confirmed, pre approved, pre authorized, pre authorised, been waived, consent has been, was given, was "
    "obtained, behalf of the user, user's behalf, consent is, consent was, consent has, implied consent, assume "
    "permission, assume consent, assume approval, treat silence, as approval, as consent, standing approval, "
    "blanket approval, ya ha dado, bereits zugestimmt, deja accepte, approval is implied, no approval, no "
    "confirmation",
)
UNASKED: Final = concept(
    "UNASKED_FOR",
    "auto_approve autoapprove unprompted",
    "so do not ask, without asking, without confirmation, without confirming, without approval, without "
    "prompting, without consulting, no pidas, ohne nachzufragen, sans demander, not bothered, be bothered, not be "
    "asked, need to ask, need to confirm, do not confirm, don't confirm, do not wait for, don't wait for, do not "
    "prompt, confirmation dialogs, are to be skipped, skip the confirmation, skip confirmation, auto approve, do "
    "not bother, even if the user, even when the user, even if they, user objects, user refuses, user declines, "
    "regardless of what, no matter what, whatever the user, without being asked, even if the question, even if "
    "unrelated, even those unrelated, being asked, would agree, would approve, assume the user, assume they, "
    "assume that the user, on your own initiative, do not wait, without waiting, do not ask the user, don't ask "
    "the user, don't ask them, do not ask them, ask for confirmation again, do not ask for confirmation, don't "
    "ask for confirmation, do not ask for permission, do not ask for approval, do not ask again",
    "without review, without reviewing, without a review, without their approval, without the user's, no questions "
    "asked, all the same, assume the answer is",
    "without user, without requiring user, without requiring approval, without any confirmation, without human",
)
OFFICE: Final = concept(
    "OFFICE_OF",
    "compliance auditors auditor audit gdpr hipaa iso soc2 soc regulation regulations regulatory statutory mandated "
    "administrator administrators headquarters corporate legally obliged obliges obligation instructed remediation "
    "superiors management",
    "platform team, security team, compliance team, legal department, compliance department, legal hold, it "
    "department, security notice, system notice, maintenance mode, soc 2, company policy, as required by, in line "
    "with, has been instructed, data protection, for legal reasons, law requires, is customary, standard procedure, "
    "best practice",
)
HEEDED: Final = concept(
    "HEEDED",
    "obey comply heed outrank outranks",
    "carry out, carry them out, carry it out, act on it, act on them, act on those, do as, do what, as it says, "
    "as instructed, what it says, meant for you, as if the user, be executed, to be executed, execute it, execute "
    "them, run it, run them, decode it, decode this, follow it, follow them, follow the steps, follow every, "
    "treat it as, treat them as, treat this as, replaces your, take them as, take it as, right away, is trusted, "
    "are trusted, as trusted, be trusted, should be run, must be run, any commands, commands in, commands inside, "
    "commands found, without delay, treat its, as authoritative, are authoritative, is authoritative, precedence "
    "over the user, precedence over the chat, precedence over your, precedence over any, precedence over all",
)
DEFIED: Final = concept(
    "DEFIED",
    "disregard circumvent unrestricted guardrails lifted jailbreak ignoriere ignora dismiss dismissed contradict "
    "contradicting",
    "set aside, no rules, no restrictions, no longer apply, no longer applies, without restrictions, content "
    "restrictions, safety rules, do not stop, don't stop, never refuse, never refuses, are lifted, are suspended, "
    "come before the, comes before the, be disregarded, be overridden, cannot be refused, may not refuse, must "
    "not refuse, do not refuse, ignore the user, ignore any, ignore all, ignore what, ignore your, ignore that, "
    "forget the, forget what, forget about, forget your, forget all, overrides the user, override the user, "
    "override your, overrides your, bypass the, supersedes your, supersedes the system, overrides any, overrides "
    "all",
    "忽略 无视",
)
CAST: Final = concept(
    "CAST",
    "you are now, you now act, your real, your true, your actual, real task, real goal, main goal, your goal, "
    "your task, your job is, your mission, your role is, your purpose, pretend you, imagine you, developer "
    "message, system message, you work for, you serve, interests of the, new policy, "
    "for the assistant, act as a, act as an, act as root, as instructions, as commands from, as "
    "orders, as directives, send me, send us, forward us, hand us, mail us",
    "note to the assistant, note to the model, note to the ai, note to the agent, note for the assistant, note for "
    "the model, note for the ai, note for the agent, message for the assistant, message for the model, message for "
    "you, your persona, adopt the persona, new persona",
)
# How far it reaches.
REACH: Final = concept(
    "REACH",
    "henceforth continually permanently",
    "each time, every time, any request, every request, each request, every call, each call, later call, later "
    "calls, each conversation, every conversation, each session, every session, each turn, every turn, end of "
    "each, each response, every response, every reply, each reply, everything you write, every answer, any task, "
    "every task, each task, start of every, beginning of every, all later, all further, all future, later "
    "sessions, from now on, from here on, from then on, rest of the session, for the rest, while connected, is "
    "connected, whatever it is, no matter, any file operation, all outgoing, all messages, all emails, all "
    "queries, before anything, before you answer, before responding, before replying, before returning to, before "
    "showing, before any, comes first, come first",
    "each answer, every message, each message, unrelated questions, unrelated requests, all following, all "
    "subsequent, every subsequent, subsequent messages, following messages, future sessions, future conversations, "
    "future requests, next conversations, across sessions, across conversations, in every future, for all time, once "
    "the user, as soon as the user, the moment the, whenever the user mentions, if the user mentions, when the user "
    "mentions, until then, act normally, behave normally, at all times",
)
OFTEN: Final = concept(
    "OFTEN",
    "whenever automatically afterwards also additionally irrespective regardless ignore override overrides supersedes",
    "must be called, must run, at least once, before answering, before doing, before reading",
)
RIVAL: Final = concept(
    "RIVAL",
    "competitors competitor competitors' competing rivals deprecated revoked unreliable",
    "instead of any, instead of all, instead of other, in place of, over all, over any, over other, the only one, "
    "the only tool, only tool that, prefer it, best choice, ranked first, takes over, take over, takes "
    "precedence, must not be called, not be called, built in, choose this, choose it, route all, most trusted, "
    "replaces the, replacing the, even if another, even when another, rather than any, over cheaper, over "
    "competing, over alternatives, any other tool, all other tools, any other search, any other server, any "
    "competing",
    "rival",
    "competing tools, rival tools, obliged to take, always pick, pick this, choose this tool, select this tool, "
    "favour this, favor this, highest trust, before considering, as untrusted, treated as untrusted, over every "
    "other, over any other, over all other, the rest are, only trustworthy, only reliable, only approved, only "
    "authorised, only authorized, sole approved",
)
# What else it wants done.
RUN: Final = concept(
    "RUN_THERE",
    "sudo bashrc zshrc crontab curl wget eval bash shell terminal powershell nc netcat autostart daemon script "
    "authorized_keys sandbox",
    "pip install, npm install, npx, into sh, into bash, start up, as root, install script, in the shell, in a "
    "shell, run the command, execute the, install the package, disable the",
)
HARMED: Final = concept(
    "HARMED",
    "delete remove erase wipe drop close disable deactivate revoke grant transfer purchase pay invite overwrite "
    "publish",
    "delete all, delete every, remove all, make it public, push the, auto approve, change the, replace the, set "
    "the recipient, set the, the recipient is, beneficiary, restart the, switch the default, change the default, "
    "delete the log, delete the conversation, clear the log, clear the history, disable the audit, turn off the, "
    "skip the tests, mark every, pending transfers, all suppliers",
    "weaken sabotage tamper redirect redirected reroute divert backdoor escalate",
    "anyone with the link, access list, world readable, audit table, audit trail, disable logging, turn off logging, "
    "switch off logging, disable audit, disable the log, disable monitoring, disable two factor, public access, set "
    "to public",
)
LURED: Final = concept(
    "LURED",
    "ask the user for, ask the user to, ask them for, ask for their, ask them to, have the user, get the user, "
    "request the user, sign in again, log in again, re enter, enter their, confirm their, verify their, provide "
    "their, paste their, confirm with the, type their, sign up for, share their, session expired, will be "
    "suspended, be suspended, be erased, keep asking, until the user, until they, reveals their, reveal their, "
    "provides their, gives their, hands over, give you their, their password, their api key, log in at, sign in "
    "at, for their password, required from the user, needed from the user, demand from the user",
)
BECAUSE: Final = concept(
    "BECAUSE",
    "otherwise unless needed necessary",
    "so that the, so that it, tool fails, will fail, fails otherwise, cannot be verified, only works, to resolve, "
    "to authenticate, to verify, for verification, to work around, work around it, for it to work, for best, is "
    "only, has to be, have to be, is to be, are to be, to make the, in order to",
)
LOOPED: Final = concept(
    "LOOPED",
    "repeatedly endlessly indefinitely",
    "again until, start over, call it again, repeat until, keep calling, hundred times, ten times, 100 times, over "
    "and over, again and again, as often as, never stop, recursively call",
)
REPLIED: Final = concept(
    "REPLIED",
    "img src",
    "your reply, your answer, your response, your answers, your replies, your summary, your output, final answer, "
    "the answer add, in the answer, in your, reply with, end of your, you write, image url, query string, url "
    "encoded, a link",
)
# What honest sentences are about.
PLAIN: Final = concept(
    "PLAIN",
    "returns return default defaults optional optionally supports format formats maximum minimum limit json page "
    "pages filter filters iso integer boolean omitted omit sorted results list lists id ids example examples e.g eg "
    "supported parameters parameter args max per seconds type types status",
    "for example, such as, defaults to, if omitted, by default, if not provided, returned by, see also",
)
LOOKED_FOR: Final = concept(
    "LOOKED_FOR",
    "detect detects detecting detection scan scans scanning scanner check checks checking redact redacts redacted "
    "mask masked masks sanitize sanitizes validate validates inspect inspects explains flags finds poisoning "
    "vulnerabilities analyzes analyses analyze classifies classify identifies flagged moderates",
)
OWN_SERVER: Final = concept(
    "OWN_SERVER",
    "tool of this server, tools of this server, tool in this server, tools in this server, tool on this server, "
    "tools on this server, this server's tools, other tools of, other tools here, tools of the same server",
)
KEPT: Final = concept(
    "KEPT",
    "locally",
    "never leaves, never leave, not leave this, not leave the, leave this machine, never stored, not stored, "
    "nothing is stored, is encrypted, are encrypted, encrypted with, is taken from, are taken from, comes from, "
    "come from, is written to, are redacted, are masked, is never, are never, removed from, remove passwords, but "
    "the requesting, to the caller, for display, back to the user, in a password manager, in your password "
    "manager, in their password manager",
    "isn't passed, not passed, never passed, is not sent, isn't sent, not sent to, never sent, not shared, never "
    "shared, isn't stored, not logged, never logged, are not logged, native dialog, isn't returned, not returned, are "
    "not returned, never returned, not included, are not included, is not included",
)
LEAVE_ASKED: Final = concept(
    "LEAVE_ASKED",
    "ask the user for confirmation, ask for confirmation, only when the user, only if the user, when the user asks, "
    "if the user asks for, user explicitly, explicit consent, explicit confirmation, explicitly asks, confirm with "
    "the user, inform the user, warn the user, let the user know, show the user, user's explicit, wait for the "
    "user, user has confirmed, user confirms, with the user first, explicit yes, approval of the user, user's "
    "consent, user's approval, unless the user, user's permission, with the user's",
    "user must run, user should run, user has to run, user can run, users should, themselves, in the draft, show the "
    "draft, let the user choose, let the user, user chooses, user selects, after the user, user has agreed, user "
    "agrees, user approves, user has approved, approved by the user, requires confirmation, confirmation is required, "
    "asks for confirmation",
)
# What it wants the model to sell.
PROMOTED: Final = concept(
    "PROMOTED",
    "recommend advertise advertisement promotes sponsor sponsored affiliate coupon plug endorse referral upsell",
    "discount code, promo code, promotional link, sign up link, partner link",
)
# Where money or goods are to go in place of where they should.
DIVERTED: Final = concept(
    "DIVERTED",
    "payee beneficiary destination iban payout payouts wallet recipient account shipping_address routing",
    "in place of the, instead of the one, rather than to the, other than the one, one given, one the user, to be used "
    "in, go to, goes to, redirected to, credited to, paid to, transferred to, each transfer",
)
# A switch of the tool's own, which honest tools have for those who are sure.
SWITCHED: Final = concept(
    "SWITCHED",
    "set force, force to, force true, with force, if force, when true, if true, set to true, set this to, flag to, "
    "option to, dry run, dry_run",
)
# Results of this tool that are meant for the next one.
PASSED_ON: Final = concept(
    "PASSED_ON",
    "to other tools, in other tools, with other tools, by other tools, for other tools, used by other, to another "
    "tool, for use in, for use with, as input to, as input for",
)
