"""The words that more than one rule needs. A rule that needs others has them in its own file."""

from __future__ import annotations

import re
from typing import Final

from callgate.pinning.inspection.vocabulary import Concept, Words, concept

NOT: Final = concept(
    "NOT",
    "not never don't dont cannot can't no without avoid refrain mustn't shouldn't won't nor neither doesn't didn't "
    "isn't aren't wasn't "
    "nicht niemals nie nichts kein keine keinen keinem ohne nunca jamas sin ne pas jamais sans rien nao sem non mai "
    "senza "
    "не без никогда никому niet nooit zonder nie bez",
    "不要 不得 不 别 勿 切勿 无需 禁止 不能 不可 不必 无须 没有 请勿 ないで せず しない 不会 不應 不应",
    "마세요 마십시오 말고 않고 없이",
)
WITHOUT: Final = concept("WITHOUT", "without ohne sin sans sem senza без zonder 未经 不经")
IF: Final = concept("IF", "if when whether unless falls wenn si cuando quand lorsque")
# "any other database tool" is about one server's tools; "any other tool" is about everybody's.
_SOME_OTHERS: Final = re.compile(
    r"\b(?:any|all|the|every) (?:of the other|of the|other) (?!other\b|mcp\b|tool|function|server|available\b|"
    r"connected\b|installed\b|following\b|subsequent\b|external\b|third\b|agent|further\b|remaining\b|more\b)"
    r"[a-z][\w-]{1,30} (?:tools?|operations?|functions?|commands?)\b"
)
EXCEPT: Final = concept("EXCEPT", "but except unless until besides beyond before", "other than, apart from")
USER: Final = concept(
    "USER",
    "user users user's human humans human's person customer customers operator anyone anybody owner "
    "benutzer nutzer anwender benutzern nutzern usuario usuarios usuaria utilisateur utilisateurs utilisatrice utente "
    "пользователь пользователю пользователя пользователем gebruiker uzytkownik",
    "用户 使用者 用戶 ユーザー ユーザ 사용자 사용자에게 사용자가",
)
MODEL: Final = concept(
    "MODEL",
    "you your yourself assistant agent model llm ai chatbot claude gpt copilot cursor gemini "
    "du dein deine deinen tu tus votre vos vous ton ta tes você seu ты твои твой ваши ваш вы",
    "你 您 あなた 助手 模型",
)
ASSISTANT: Final = concept("ASSISTANT", "assistant agent model llm ai chatbot claude gpt copilot", "助手 模型 智能体")
MUST: Final = concept(
    "MUST",
    "must always required mandatory need needs shall should obligatory immediately has have "
    "musst muss immer unbedingt debes debe siempre devez dois doit toujours deve sempre должен всегда",
    "必须 务必 应该 一定 总是 必須 必ず",
)
TOOL: Final = concept(
    "TOOL",
    "tool tools function functions plugin plugins server servers mcp "
    "werkzeug werkzeuge herramienta herramientas outil outils ferramenta ferramentas strumento инструмент инструменты",
    "工具 函数 插件 ツール",
)
OTHER: Final = concept(
    "OTHER",
    "other another others else alternative alternatives competing competitor similar different "
    "anderes andere anderen otra otras otro autre autres outra outras altro altri другие другой",
    "其他 其它 别的 他の",
)
EVERY: Final = concept(
    "EVERY",
    "any every each all everything anything whatever whenever "
    "jede jedes jeder jeden alle alles irgendein cualquier cualquiera cada todas todos todo chaque tout toute tous "
    "toutes "
    "qualquer ogni все каждый любой",
    "任何 所有 每次 每个 一切 全部 すべて あらゆる",
)
USE: Final = concept(
    "USE",
    "use using used consult consulted call calling called invoke invoking invoked run running execute executing "
    "trigger triggering "
    "verwendest verwenden aufrufen rufst benutzt usar utilizar llamar invocar utiliser appeler utilize использовать",
    "使用 调用 呼叫 运行 执行 使う 呼び出す",
)
ORDERS: Final = concept(
    "ORDERS",
    "instruction instructions directive directives guideline guidelines guidance prompt prompts "
    "anweisung anweisungen anweisungen instruktionen vorgaben instrucciones instruccion indicaciones directrices "
    "consigne consignes directives instrucoes instrucao istruzioni инструкции инструкцию указания instrukcje",
    "指令 指示 提示词 系统提示 命令 指導 지시를 지시사항을 지침을 명령을 지시",
)
RULES: Final = concept(
    "RULES",
    "rule rules policy policies constraint constraints restriction restrictions guardrail guardrails safeguard "
    "safeguards "
    "safety command commands orders limits limitation limitations training protections "
    "regeln regel vorschriften reglas normas regles regras regole правила ограничения",
    "规则 限制 规定 约束 ルール",
)
READ: Final = concept(
    "READ",
    "read reading open opening load loading retrieve retrieving fetch fetching collect collecting gather "
    "gathering extract extracting grab grabbing obtain obtaining copy copying dump dumping harvest harvesting steal "
    "get "
    "getting locate capture capturing cat find finding take "
    "lies lese lesen offne offnen lee leer leido abre abrir lis lire ouvre ouvrir leia ler прочитай прочти открой",
    "liest lesen hole lisez lire recuperez recupere ouvrez lea abra obten recupera recoge obtenha recupere leggi apri "
    "lees haal odczytaj otworz pobierz прочитайте откройте извлеки получи",
    "look through, look for, look up",
    "读取 打开 获取 查找 收集 读 読み 読んで 読み取",
)
PASS: Final = concept(
    "PASS",
    "pass passing passed include included put putting provide providing supply supplying append appending "
    "attach attaching insert inserting add adding embed embedding hand handing place placing paste pasting fill give "
    "giving "
    "share sharing encode encoding write copy store save record prefix prefixed prepend "
    "ubergeben ubergib mitschicken mitschickst gib fuge pon incluye incluir anade agrega pasa ajoute ajouter inclus "
    "mets "
    "passe fournis inclua adicione передай добавь включи",
    "incluez mettez ajoutez fournissez passez joignez anadir adjunta adjunte includi inserisci aggiungi insira voeg "
    "dolacz przekaz вставь передайте добавьте укажи fugen anhangen",
    "传递 传入 填入 放入 附加 包含 写入 添加 提供 渡す 含め",
)
SEND: Final = concept(
    "SEND",
    "send sending sent post posting forward forwarding forwarded transmit transmitting transmitted upload uploading "
    "uploaded "
    "submit submitting report exfiltrate exfiltrating leak leaking sync deliver relay mirror copy push email mail ship "
    "sende schicke sendet ubertrage ubermittle lade envia enviar envie manda sube envoie envoyer envoyez transmets "
    "transmettre invia отправь отправляй отправить перешли",
    "transmettez transferez transfere adressez reenvia reenvie remite encaminhe encaminha inoltra stuur verstuur "
    "wyslij przeslij отправьте перешлите senden schicken leite weiterleiten",
    "发送 上传 传送 发到 传到 转发 提交 送信 送って アップロード",
)
SECRET: Final = concept(
    "SECRET",
    "password passwords passphrase secret secrets credential credentials token tokens cookie cookies keychain wallet "
    "ssn "
    "passwort passworter kennwort zugangsdaten schlussel contrasena contrasenas clave claves credenciales cle "
    "identifiants "
    "senha senhas пароль пароли пароля ключ ключи",
    "api key, api keys, private key, private keys, ssh key, ssh keys, access key, access keys, seed phrase, credit "
    "card, "
    "environment variables, environment variable, env vars, saved logins, social security, mot de passe, mots de "
    "passe, "
    "recovery phrase, signing key, encryption key, bank account, personal data",
    "密码 密钥 凭证 凭据 口令 令牌 私钥 パスワード 秘密鍵",
)
# What a text says of its tool, where the imperative would be an order.
READS: Final = concept(
    "READS",
    "reads opens loads accesses retrieves fetches collects gathers extracts grabs copies dumps harvests steals scrapes",
)
SENDS: Final = concept(
    "SENDS",
    "sends posts forwards transmits uploads submits exfiltrates leaks syncs delivers relays mirrors pushes emails "
    "ships",
)
CONTENTS: Final = concept(
    "CONTENTS", "content contents text value values data body inhalt inhalte contenido contenu conteudo содержимое 内容"
)
THIS: Final = concept("THIS", "this it that these those dies das es esto eso cela ceci isto 这 此 它 これ")
YOUR: Final = concept("YOUR", "your any the deine tu su votre ta 你的 您的")
REPLY: Final = concept(
    "REPLY",
    "reply replies answer answers response responses summary summaries output message explanation "
    "antwort respuesta reponse resposta ответ",
    "回复 回答 答复 返信 回答",
)
EXAMPLE: Final = concept(
    "EXAMPLE", "eg example examples like e.g format ejemplo exemple beispiel 例如", "e g, such as, for example"
)
SENSITIVE: Final = Concept("SENSITIVE")
# Of these, the ones that are named by a path.
KEY_PATH: Final = Concept("KEY_PATH")
# Tools of one kind or product, which a description may well have rules for.
SOME_TOOLS: Final = Concept("SOME_TOOLS")
CONFIGURED: Final = Concept("CONFIGURED")

# Files that hold keys to other things. Public halves and lists of known hosts are none.
_KEY_FILES: Final = re.compile(
    r"\bid_(?:rsa|dsa|ecdsa|ed25519)\b(?!\.pub)|\.ssh\b(?!/(?:known_hosts|authorized_keys|config\b|[\w-]{1,40}\.pub))"
    r"|/etc/(?:passwd|shadow|sudoers)|\.aws/credentials|\.netrc\b|\.pgpass\b|\.git-credentials|\bwallet\.dat\b"
    r"|\.gnupg\b|\.(?:pem|p12|pfx|keystore|jks)\b|\blogin data\b|\bcookies\.sqlite\b|\blogins\.json\b|\bkeychain\b"
    r"|\bprivate (?:ssh |signing |rsa |gpg )?keys?\b|\bssh (?:private )?keys?\b|\bid rsa\b|\bseed phrase\b"
    r"|\bwallet file\b|\betc slash (?:passwd|shadow)\b|\betc[ _](?:passwd|shadow)\b|\bssh[ _]id[ _]rsa\b"
    r"|application_default_credentials|\.vault-token|\.bash_history|\.zsh_history|/proc/self/environ|\.azure/|\.config/gcloud"
)
# Files that honest tools speak of as well, and that often hold secrets.
_SETTINGS: Final = re.compile(
    r"(?<![\w/])\.env\b|/\.env\b|\bmcp\.json\b|\.cursor/|claude_desktop_config|\.npmrc\b|\.pypirc\b|\.kube/config|\bkubeconfig\b"
    r"|\.docker/config|\.aws/|\bsecrets\.(?:ya?ml|json|toml)\b|\bcredentials\.(?:json|ya?ml)\b|\.ssh/config|/etc/hosts"
    r"|\bconfig\.json\b|\bsettings\.json\b|\benv file\b|\bdotenv\b"
)


# Environment variables that hold a secret, by their usual names.
_VARIABLES: Final = re.compile(
    r"\b[a-z0-9]{1,24}_(?:[a-z0-9]{1,24}_){0,3}(?:secret|token|password|key|credentials)(?:_key)?\b"
)


def mark_files(words: Words) -> None:
    """Puts SENSITIVE and CONFIGURED where such files are named, and SOME_TOOLS where tools of one kind are."""
    text = words.folded.text
    if " other " in text or " of the " in text:
        for found in _SOME_OTHERS.finditer(text):
            words.mark(SOME_TOOLS, found.end() - 1)
    for found in _KEY_FILES.finditer(text):
        words.mark(SENSITIVE, found.start())
        if not found[0].isalpha() and " " not in found[0]:
            words.mark(KEY_PATH, found.start())
    for made, pattern in ((CONFIGURED, _SETTINGS), (SECRET, _VARIABLES)):
        for found in pattern.finditer(text):
            words.mark(made, found.start())
