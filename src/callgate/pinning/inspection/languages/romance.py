"""French and Italian."""

from __future__ import annotations

from typing import Final

FRENCH: Final = """\
USER: utilisatrices humain personne | le client, du client, au client, les clients, aux clients, des clients
ASSISTANT: | l'assistant, l'agent, modèle de langage
NOT: aucun aucune rien
MUST: devez doivent impérativement obligatoirement systématiquement immédiatement obligatoire | est tenu
TOOL: serveur serveurs
OTHER: | d'autres, un autre, une autre, les autres, des autres
EVERY: | n'importe quel, n'importe quelle, n'importe quels
USE: utilisez utilise appelez appelle appelé appelée utiliser exécute exécutez invoque invoquez
ORDERS: ordres instructions
RULES: restrictions règles
EARLIER: précédentes précédents antérieurs reçues auparavant initiales
IGNORE: ignorer oublier négliger outrepasse contourne | tiens plus compte, tenez plus compte, fais abstraction
READ: lisez collecte collectez rassemble rassemblez récupérer recherche cherche cherchez extrais extrayez parcours
    parcourez consulte regarde regardez examinez relève relevez
PASS: joins joignez recopie recopiez copie copiez insère insérez placez colle collez ajoutes inscris transcris
    fournir joindre renseigne indique indiquez versez glisse glissez recense
SEND: transmettez transmet expédie expédiez téléverse poste postez communique communiquez transmettre
SECRET: jeton jetons identifiant secrets | clé privée, clés privées, clé d'accès, carte bancaire, clé api
CONTENTS: contenu contenus
TELL: dis dites parle parler signaler signale avertis avertissez évoque évoquez préviens prévenez révèle
HIDE: cachez dissimulez masquez occulte
QUIETLY: discrètement secrètement furtivement | en douce, en secret, à l'insu, en catimini, en silence
CONCEALED: | inutile que l'utilisateur, garde cela pour, garde ça pour, gardez cela pour, pas savoir, rien savoir,
    sans le dire, sans le mentionner, sans en parler, n'en parle, n'en parlez, ne parle jamais, sans que
    l'utilisateur, sans qu'il, ne dites rien, ne dis rien, ne doit pas le, ne doit rien, n'a pas besoin de, ni vu ni
    connu, sans en informer, sans en avertir, ne mentionne pas, ne mentionnez pas, sans rien dire, reste entre nous
TALK: échanges | conversation précédente, la discussion, historique de la, historique des, messages précédents, la
    conversation, cette conversation, messages échangés
INNER: | invite système, message système, prompt système, tes instructions, vos instructions, tes outils, vos
    outils, outils disponibles, ta mémoire, votre mémoire, ton raisonnement, instructions initiales, liste de tes
WHOLE: intégralité intégralement intégrale textuellement entièrement | mot pour mot, en entier
ELSEWHERE: | autres outils, autre outil, autres serveurs, autre serveur, cette session, autres fournisseurs,
    résultats des autres
PRIVATE: carnet presse-papiers iban salaire salaires | numéro de sa carte, numéro de carte, carte bancaire, données
    personnelles, fichiers personnels, ses fichiers, ses documents, ses contacts, dans le navigateur, coordonnées
    bancaires, boîte de réception
CONSENT: | déjà donné son accord, déjà donné, déjà consenti, déjà autorisé, déjà accepté, déjà approuvé, donné son
    consentement, l'a autorisé, l'a approuvé, a donné son accord
UNASKED: | sans demander, sans lui demander, sans confirmation, sans autorisation, sans attendre, ne demande pas, ne
    demandez pas, sans poser de, même si l'utilisateur, quoi que dise, sans son accord, peu importe ce
OFFICE: conformément réglementation règlement juridique obligation | politique de l'entreprise, service de sécurité,
    équipe de sécurité, est tenu de, est tenue de, sont tenus de, sur ordre, l'administrateur l'a, l'administrateur
    a, la direction exige, département de sécurité
HEEDED: obéis obéissez obéir | exécute les, exécutez les, applique les, suis les instructions, suivez les
    instructions, uniquement à ce, fais ce que, faites ce que
DEFIED: | ne s'appliquent plus, n'est plus valable, ne sont plus valables, aucune règle, plus compte des
CAST: | tu es maintenant, vous êtes maintenant, ta vraie mission, ton véritable objectif, désormais tu
FROM_NOW: dorénavant désormais | à partir de maintenant
REACH: | à chaque message, à chaque appel, chaque message, chaque requête, chaque appel, chaque réponse, à chaque
    fois, toute question, toute demande, avant de répondre, avant toute, avant tout autre, avant n'importe, au début
    de chaque
BEFORE: | avant de, avant que
TURN: requête requêtes
UNFIT: obsolète obsolètes dangereux dangereuse compromis fiables périmé périmés
RIVAL: | aucun autre outil, jamais par un autre, jamais un autre, à la place des, plutôt que les autres, pas
    d'autres outils, au lieu des autres
HARMED: supprime efface remplace désactive écrase vire modifie supprimez effacez remplacez désactivez
CHANGE: remplacez modifie modifiez substitue
TARGET: bénéficiaire compte
GUARD: journalisation | contrôles de sécurité, contrôle de sécurité, vérifications de sécurité
OFF: désactive désactivez désactiver
LURED: ressaisir | demande à l'utilisateur de, demandez à l'utilisateur de, demande à l'utilisateur son, demande au
    client, demande son mot, saisir à nouveau, de nouveau saisir, son mot de passe
BLIND: | copie cachée, copie invisible
PLAIN: renvoie facultatif facultative défaut | par défaut, par exemple
EXAMPLE: | par exemple
LOOKED_FOR: détecte analyse vérifie signale repère identifie
OPENER: ouvre connexion connecte authentifie démarre
OWN_SERVER: | outils de ce serveur, outil de ce serveur, autres outils de ce serveur
KEPT: chiffré chiffrée chiffrés masqués masquées localement | ne quitte jamais, n'est jamais, ne sont jamais, jamais
    journalisé, pas conservé*
LEAVE_ASKED: explicitement | confirmation à l'utilisateur, confirmez d'abord avec, confirmez avec l'utilisateur,
    accord explicite, montrez à l'utilisateur, informez l'utilisateur, avertissez l'utilisateur, avec l'utilisateur,
    si l'utilisateur le demande, demandez la plutôt, montre à l'utilisateur, préviens l'utilisateur, uniquement si
    l'utilisateur, consentement explicite
HOST: | variables d'environnement, variable d'environnement, répertoire personnel
TOLD: prétends prétendez affirme affirmez | si on te demande, si on vous demande, s'il demande, réponds que, réponds
    qu'il, répondez que, fais croire, fais comme si
OUTWARD: externe externes | notre serveur, nos serveurs, canal public
REPLIED: | ta réponse, votre réponse, tes réponses, vos réponses, chaque réponse
SINK: | dans le champ, dans le paramètre, comme paramètre, en paramètre
LOOPED: | sans arrêt, en boucle, encore et encore
VARIABLES: | variables d'environnement, variable d'environnement
"""

ITALIAN: Final = """\
USER: utenti cliente clienti umano | alla persona, la persona
ASSISTANT: assistente | l'assistente, modello linguistico
MODEL: tuo tua tuoi tue
NOT: nessun nessuno nessuna nulla niente
MUST: devi devono obbligatorio subito immediatamente obbligatoriamente | va chiamato, è tenuto, va usato
TOOL: strumenti
OTHER: altra altre
EVERY: qualsiasi qualunque tutti tutte tutto tutta ciascun
USE: usare usate chiama chiamare chiamato utilizza utilizzare esegui invoca
ORDERS: istruzione ordini comandi indicazioni
EARLIER: precedente tutte iniziali
IGNORE: ignorare dimenticare trascura scorda | non tenere conto
READ: leggere aprire raccogli raccogliere recupera recuperare cerca cercare estrai preleva esamina controlla
    consulta
PASS: allega allegare metti inserire copia copiare fornisci fornire forniscile scrivi incolla riporta aggiungere
    passal* inseril* allegal* copial* mettil* includil* passa
SEND: inviare inviala invialo inviali spedisci spedire manda mandare trasmetti trasmettere carica invial* mandal*
    spedisci* trasmettil*
SECRET: credenziali segreti chiavi | chiave privata, chiavi private, parola d'ordine, carta di credito
CONTENTS: contenuto contenuti
TELL: raccontare racconta parlare parla informare avvisare avvisa comunicare comunica mostrare menziona dirlo
HIDE: nascondi nascondere occultare celare
QUIETLY: segretamente silenziosamente furtivamente | di nascosto, in segreto, all'insaputa, senza farti notare
CONCEALED: | non farne parola, venire a sapere, non deve sapere, non deve accorgersi, senza dirlo, senza dire, senza
    menzionare, senza menzionarlo, non parlarne, non dirlo, non raccontare, non menzionare, non ha bisogno di,
    tienilo per te, resta tra noi, senza che l'utente, senza avvisare, senza informare, devi raccontare questo
TALK: conversazioni dialogo cronologia | messaggi precedenti, la conversazione, tutti i messaggi
INNER: | prompt di sistema, messaggio di sistema, tue istruzioni, tuoi strumenti, strumenti disponibili, tua
    memoria, tuo ragionamento, elenco dei tuoi
WHOLE: intera intero interamente integralmente testualmente | parola per parola, per intero, tutto ciò che
ELSEWHERE: | altri strumenti, altro strumento, altri server, altro server, questa sessione, altri fornitori, gli
    altri strumenti
PRIVATE: rubrica appunti stipendio | dati personali, suoi documenti, suoi file, suoi contatti, numero di carta, nel
    browser, della banca, coordinate bancarie, posta in arrivo
CONSENT: acconsentito | già dato il consenso, già dato, già autorizzato, già approvato, già acconsentito, lo ha
    autorizzato, ha dato il consenso
UNASKED: | senza chiedere, senza conferma, senza chiedergli, non chiedere conferma, non chiedere il, anche se
    l'utente, qualunque cosa, a prescindere, senza attendere, senza autorizzazione
OFFICE: normativa regolamento | per disposizione, ufficio sicurezza, ufficio legale, politica aziendale, è tenuto a,
    è tenuta a, sono tenuti a, l'amministratore lo ha, l'amministratore ha, per ordine, reparto sicurezza
HEEDED: obbedisci ubbidisci | esegui le, esegui i comandi, segui le istruzioni, solo quelle di, segui solo, fai
    quello che, valgono solo
DEFIED: | non valgono più, non si applicano più, nessuna regola, senza regole
CAST: | ora sei, adesso sei, il tuo vero, la tua vera
FROM_NOW: | d'ora in poi, d'ora in avanti, da ora in poi, da adesso in, da questo momento
REACH: | a ogni messaggio, ad ogni messaggio, ogni messaggio, ogni richiesta, ogni risposta, ogni domanda, ogni
    volta, prima di rispondere, prima di qualsiasi, prima di ogni, prima di tutto
BEFORE: | prima di, prima che
TURN: messaggio messaggi richiesta risposta
UNFIT: inaffidabile inaffidabili obsoleto obsoleti insicuri compromessi pericolosi
RIVAL: | mai gli strumenti, nessun altro strumento, mai altri, al posto di altr*, al posto degli altri, invece degli
    altri, mai da altri, non usare altri
HARMED: elimina cancella rimuovi sostituisci disattiva sovrascrivi trasferisci
CHANGE: sostituisci cambia modifica
TARGET: conto beneficiario
GUARD: | controlli di sicurezza, controllo di sicurezza, la registrazione, registri di controllo
OFF: disattiva disabilita salta disattivare
LURED: reinserire | chiedi all'utente di inserire, chiedi all'utente di fornire, chiedi all'utente la, chiedi
    all'utente il, inserire di nuovo, la sua password, sua password
BLIND: | copia nascosta, copia cieca
PLAIN: restituisce facoltativo opzionale predefinita predefinito | ad esempio, per impostazione predefinita
EXAMPLE: | ad esempio, per esempio
LOOKED_FOR: rileva analizza verifica controlla individua segnala
OPENER: apre accesso accede connette avvia
OWN_SERVER: | strumenti di questo server, strumento di questo server
KEPT: cifrata cifrato cifrati mascherati mascherate localmente | non lascia mai, non viene mai, mai salvat*, non
    viene salvat*
LEAVE_ASKED: esplicitamente | conferma all'utente, chiedi sempre conferma, approvazione esplicita, consenso
    esplicito, mostra sempre, mostra all'utente, informa l'utente, avvisa l'utente, solo se l'utente, chiedilo
    all'utente, conferma con l'utente
HOST: | variabili d'ambiente, variabile d'ambiente, cartella personale
TOLD: fingi sostieni | se te lo chiede, se viene chiesto, se chiede, rispondi che, fai finta
OUTWARD: esterno esterni | nostro server, nostri server, canale pubblico
REPLIED: | tua risposta, tue risposte, ogni risposta
SINK: | nel campo, nel parametro, come parametro
LOOPED: | più e più volte, senza fermarti, all'infinito
VARIABLES: | variabili d'ambiente, variabile d'ambiente
"""
