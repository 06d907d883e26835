"""What in the text of a result is worth a closer look, and what is telling by itself.

Results are prose: they order, ask and threaten, for people write so to people. What they do not do is speak to a
model, in its user's or system's name, or imitate the frame of its conversation. Every pattern here has bounded
repeats, is applied to a few hundred characters, and begins with something fixed.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from callgate.pinning.inspection.confusables import INVISIBLE, LOOKS_LIKE

_MODEL: Final = r"(?:ai|llm|assistants?|agents?|language model|large language model|chatbot|copilot|claude|gpt|gemini)"
_ANY_MODEL: Final = rf"(?:the |any |all |an? |every |my |our )?(?:ai |llm |language |helpful )?{_MODEL}\b"


class Sign(NamedTuple):
    """A word to look for; around it, a shape that is telling, or one that makes the place worth reading closely.

    Both need one of the words in `beside`: a search for a few words costs less than one for a shape.
    """

    needle: str
    beside: tuple[str, ...] = ("",)
    telling: re.Pattern[str] | None = None
    worth: re.Pattern[str] | None = None
    # As `worth`, but it begins with the word itself.
    onward: re.Pattern[str] | None = None
    # Honest texts about models are full of it.
    weak: bool = False


def _made(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts))


# The model is spoken to, or somebody passes for its user. In agreement with `authority.*` of the tool descriptions.
_SPOKEN_TO: Final = _made(
    rf"\b(?:to|for) you, (?:as )?{_ANY_MODEL}",
    rf"\b(?:dear|attention|hey|hello|note (?:to|for)|message (?:to|for)|instructions? (?:to|for)|directives? (?:to|for)"
    rf"|reminder (?:to|for)|orders? for)[ :,]{{1,3}}{_ANY_MODEL}[^a-z]{{0,3}}"
    r"(?:$|\n|[:,.!\])-]|you\b|please\b|reading\b|process|when\b|must\b|before\b|do\b)",
    rf"\bif you(?:'re| are) {_ANY_MODEL}",
    r"\byou(?:'re| are) (?:now )?(?:an? (?:ai|llm|language)|no longer an?|now (?:in |dan\b|acting|operating|my ))",
    rf"\b{_ANY_MODEL}[,:] ?(?:please |you (?:must|should|have to|need to|are (?:now|required))"
    r"|ignore |disregard |do not |stop |forget )",
    rf"\b{_ANY_MODEL}s? (?:reading|processing|parsing|summari[sz]ing|that reads?|who reads?) this\b",
)
_AS_THE_USER: Final = _made(
    r"\bfrom me, the user\b",
    r"\b(?:i am|i'm|this is|signed,?|sincerely,?|regards,?|speaking as|it's me,?)(?:\s|\\[nrt]){1,4}"
    r"(?:your |the )(?:user|human|owner of this account)\b(?! (?:guide|manual|who|that|table|id\b|name\b))",
    r"\btask (?:that )?(?:i|the user|we) (?:gave|assigned|have given|asked) (?:to )?you\b",
    r"\bthe user (?:has )?(?:already )?(?:approved|authori[sz]ed|consented to|pre-?approved) "
    r"(?:this|all|these|any|every)\b",
)
_TASK: Final = _made(
    r"\b(?:ignore|disregard|forget|abandon|before (?:you )?(?:\w{1,10} ){0,4}|instead of|stop|pause|drop)"
    r" ?(?:your|the) (?:current|original|previous|initial|user'?s?|given|main|real) "
    r"(?:task|request|goal|question|prompt)\b",
)
_SYSTEM: Final = _made(
    r"\bsystem (?:prompt|message|notice|override|instructions?|directive|alert|update|note|command)s?\b.{0,3}[:\]>)!-]"
    r".{0,60}\b(?:you|assistant|agent|ai|model|must|ignore|do not)\b",
    r"\b(?:reveal|print|output|repeat|disclose|show|send|include|forward|leak) (?:me )?your (?:\w{1,12} )?"
    r"system prompt\b",
)
_OF_THE_SYSTEM: Final = re.compile(
    r"system (?:prompt|message|notice|override|instruction|directive|alert|update|note|command)"
)
_OVERRIDING: Final = re.compile(
    r"ignor|disregard|forget|overrid|overrul|bypass|supersed|set aside|no longer|\bvoid\b|obey|stop following|instead"
    r"|\b(?:your|hidden|secret|mandatory|core) (?:\w{1,10} )?instruc"
    rf"|instruc\w{{0,6}} (?:for|to) {_ANY_MODEL}"
)
_IGNORED: Final = re.compile(
    r"ignor\w{0,6}[^.\n]{0,60}(?:previous|prior|above|earlier|instruc|prompt|guideline|restriction|safety|policies"
    r"|you were|the user|\b(?:your|the|that|this) (?:\w{1,10} )?(?:task|request|goal)\b"
    r"|anweisung|vorgaben|anterior|previas|precedent|consigne|istruzion|regeln|reglas)"
)
# A manual says what not to show to the user; it does not say what the user is not to know.
_KEPT_BACK: Final = re.compile(
    r"(?:\bnot|never|n't|without|avoid) (?:\w{1,12} ){0,3}(?:tell|inform|mention|notif|alert|reveal|let|say)\w{0,4}"
    r"[^.\n]{0,40}the user(?! agent|'s)"
    r"|(?:hid(?:e|den|ing)|conceal|secret|silent|quiet|keep|unaware)[^.\n]{0,60}(?:from|of) the user(?! agent|'s)"
    r"|without the user(?:'s)? (?:know|notic|consent|permission)"
    r"|the user (?:must|should|need|will|does|is)[^.\n]{0,12}(?:not|never|n't)[^.\n]{0,12}"
    r"(?:know|told|notice|find|learn)"
)
_TOLD: Final = re.compile(
    rf"\b{_ANY_MODEL} (?:must|shall|should|has to|needs to|is required to|is to|will now)\b"
    r"|you must|from now on|you are now|(?:full|entire|whole|conversation|chat) (?:history|conversation|transcript)"
)


def _words(listed: str) -> tuple[str, ...]:
    return tuple(listed.split())


_TO_SOMEBODY: Final = _words(
    "you dear attention hey hello note message instruc directive reminder order please must now ignor "
    "disregard stop forget reading processing parsing summari read shall should required needs history conversation"
)
# Shapes that are telling wherever they stand.
TELLING: Final = (_SPOKEN_TO, _AS_THE_USER, _TASK, _SYSTEM)
# A long needle is found faster than a short one; each costs about the same however much text there is to pass over.
SIGNS: Final = (
    Sign(
        "instruc",
        _words(
            "ignor disregard forget overrid overrul bypass supersed aside void obey instead your hidden secret "
            "mandatory core longer following ai llm assistant agent model chatbot claude gpt copilot gemini"
        ),
        _SPOKEN_TO,
        _OVERRIDING,
    ),
    Sign("ignor", onward=_IGNORED),
    Sign("disregard", onward=re.compile("disregard")),
    Sign("assistant", _TO_SOMEBODY, _SPOKEN_TO, _TOLD, weak=True),
    Sign(
        "the user",
        _words(
            "not never n't without hid conceal secret silent quiet keep unaware me, i'm am this signed sincerely "
            "regards speaking gave assigned given asked approved authori consent"
        ),
        _AS_THE_USER,
        _KEPT_BACK,
    ),
    Sign("system", onward=_OF_THE_SYSTEM, weak=True),
)
# Found in the text as it is written: in lower case, the two letters are in every other word.
AI: Final = Sign("AI", _TO_SOMEBODY, _SPOKEN_TO, _TOLD, weak=True)
LLM: Final = Sign("LLM", _TO_SOMEBODY, _SPOKEN_TO, _TOLD, weak=True)
# One fixed character at the front makes a search that passes over the rest of a text at full speed.
AI_WRITTEN: Final = re.compile(r"A(?=I\b)")
LLM_WRITTEN: Final = re.compile(r"L(?=LM)")
KEY_FILE: Final = re.compile(
    r"~(?=/\.(?:ssh\b|aws/cred|gnupg|netrc|pgpass|git-credentials|kube/config|docker/config|config/gcloud|npmrc|pypirc"
    r"|bash_history|zsh_history|cursor/|env\b))"
)
# What nobody encodes for the sake of an example.
COMMAND: Final = re.compile(
    r"\b(?:curl|wget)\b[^\n]{1,200}\|\s{0,3}(?:ba|z)?sh\b|/dev/tcp/|\bbash -i\b|\brm -rf /|\bnc -e\b|/bin/(?:ba)?sh -i"
)
# Only looked for where a text has letters of other scripts. The rules know more of these languages, but not in a text
# that is mostly Latin, where such letters count as imitations.
FOREIGN: Final = (
    (
        "忽略",
        re.compile("忽略.{0,6}(?:之前|以上|先前|所有|前面|上述|此前).{0,8}(?:指令|指示|提示|规则|要求)"),
        "instructions",
    ),
    (
        "无视",
        re.compile("无视.{0,6}(?:之前|以上|先前|所有|前面|上述|此前).{0,8}(?:指令|指示|提示|规则|要求)"),
        "instructions",
    ),
    ("不要告诉", re.compile("不要告诉.{0,4}用户"), "secrecy"),
    ("指示", re.compile("指示.{0,8}無視"), "instructions"),
    ("지시", re.compile("지시.{0,8}무시"), "instructions"),
    ("игнорир", re.compile(r"игнорир\w{0,8} .{0,40}(?:инструкц|указани)"), "instructions"),
    ("забудь", re.compile(r"забудь\w{0,2} .{0,40}(?:инструкц|указани)"), "instructions"),
    ("не говори", re.compile(r"не говори\w{0,2} .{0,20}пользовател"), "secrecy"),
)

# The frame around a model's conversation, and blocks that claim to be part of it. Words must follow: an element of
# somebody's XML has none, or a value.
FRAME: Final = re.compile(
    r"<(?:\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id|begin_of_text|end_of_turn)\|>"
    r"|<sys>>|start_of_turn>|(?:important|information|system|admin|override|directive|critical|mandatory|urgent|secret|"
    r"hidden|instructions?|assistant|developer|attention|ai|llm)"
    r"(?:[-_ ](?:message|notes?|notice|override|update|instructions?|prompt|task|directive|reminder|only)){0,2}>"
    r"(?=(?:\s|\\[nrt]){0,8}[\w*#(-][^\s<>\\]{0,24}(?:\s|\\[nrt]){1,4}[^\s<>]{1,40}(?:\s|\\[nrt])))"
)
BRACKET: Final = re.compile(
    r"\[(?:/?inst\]|(?:system|admin|developer|assistant|ai|llm)[ _-]"
    r"(?:override|instructions?|directive|prompt|message|notice)\](?=.{0,80}\b(?:you|ignore|must|assistant|agent|ai)\b))"
)

# Keys and tokens by their shape; `sure` is what every one of its kind has.
PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY-----(?:\s|\\{1,4}[nr]){1,6}[A-Za-z0-9+/=]{32}"
    r"(?:[A-Za-z0-9+/=]{1,76}(?:(?:\s|\\{1,4}[nr]){1,4}(?=[A-Za-z0-9+/=]{16}))?){0,53}+"
)
TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?P<sure>(?:AKIA|ASIA)[A-Z0-9]{16}\b|gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40}|glpat-[\w-]{20}"
    r"|sk-(?:[a-z0-9]{2,10}-){0,2}[A-Za-z0-9_-]{24}|sk_(?:live|test)_[A-Za-z0-9_]{14}|xox[abeoprs]-[A-Za-z0-9-]{20}"
    r"|AIza[\w-]{35}|npm_[A-Za-z0-9]{36}|hf_[A-Za-z0-9]{30}|pypi-AgEI[\w-]{20})[\w-]{0,512}+"
)
_CALLED: Final = {
    "A": "an AWS access key",
    "AIza": "a Google key",
    "gh": "a GitHub token",
    "github_pat_": "a GitHub token",
    "glpat-": "a GitLab token",
    "hf_": "a Hugging Face token",
    "npm_": "a package registry's token",
    "pypi-": "a package registry's token",
    "sk-": "an API key",
    "sk_": "a Stripe key",
    "xox": "a Slack token",
}
JWT: Final = re.compile(r"eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{16,2000}+")
_ASSIGNED: Final = r"[\"']?(?: is)?\s{0,3}[:=]\s{0,3}[\"'`]?"
PASSWORD: Final = re.compile(
    rf"(?:password|passwort|passwd|passphrase){_ASSIGNED}(?P<value>[^\s\"'`<>{{}}\[\](),;]{{8,80}})", re.IGNORECASE
)
_AWS_SECRET: Final = re.compile(
    rf"secret[_ -]?(?:access[_ -]?)?key{_ASSIGNED}(?P<value>[A-Za-z0-9+/]{{40}})(?![A-Za-z0-9+/])", re.IGNORECASE
)
# Right before a long run of letters and digits.
NAMED: Final = re.compile(
    rf"(?:secret|private|api|access|auth|signing)[_ -]?(?:access[_ -]?)?(?:key|token|secret){_ASSIGNED}\Z",
    re.IGNORECASE,
)
_STAND_IN: Final = re.compile(
    r"example|your|xxx|test|dummy|sample|placeholder|changeme|redacted|fake|\.\.\.|\*\*|\$|%\w|1234567890|abcdef",
    re.IGNORECASE,
)


def what(token: str) -> str:
    """The words for a token, by how it begins."""
    return next((words for start, words in reversed(_CALLED.items()) if token.startswith(start)), "a token")


def is_real(found: str) -> bool:
    """Not what stands for a secret in a manual: many different characters, digits among them, no such word."""
    return (
        len(set(found)) > 7
        and any(char.isdigit() for char in found)
        and any(char.isalpha() for char in found)
        and _STAND_IN.search(found) is None
    )


def is_password(value: str) -> bool:
    """Something that only a password looks like: letters, digits and marks mixed, and no name, path or address."""
    if not is_real(value) or set("/.\\:@=") & set(value):
        return False
    if not value.isalnum() and not value.isidentifier():
        return True
    return value.lower() != value and value.upper() != value and any(char.isdigit() for char in value[1:-1])


# How a name is found that a secret follows, what follows it, whether that is one, and the words for it.
ASSIGNED: Final = (
    ("passw", PASSWORD, is_password, "a password"),
    ("passphrase", PASSWORD, is_password, "a password"),
    ("secret", _AWS_SECRET, is_real, "an AWS secret key"),
)


def _latin(char: str) -> str:
    parts = unicodedata.normalize("NFKD", char).casefold()
    return "".join(part for part in parts if not unicodedata.combining(part))


def _accented() -> dict[str, str]:
    """Letters with marks, wide, mathematical and enclosed ones, as the plain letters they are read as."""
    ranges = ((0xC0, 0x250), (0x1E00, 0x1F00), (0xFF01, 0xFF5F), (0x1D400, 0x1D800), (0x24B6, 0x24EA))
    found = {chr(code): _latin(chr(code)) for first, last in ranges for code in range(first, last)}
    return {char: plain for char, plain in found.items() if plain.isascii() and plain != char}


# Each character that reads as others: nothing, or Latin letters. The look-alikes only hold in text that is Latin.
UNSEEN: Final = frozenset(INVISIBLE)
FOLDED: Final[dict[str, str]] = {
    **_accented(),
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "\u00a0": " ",
    "\u202f": " ",
    "\u2009": " ",
}
ALIKE: Final[dict[str, str]] = dict(LOOKS_LIKE) | {
    other.upper(): plain for other, plain in LOOKS_LIKE.items() if len(other.upper()) == 1
}
