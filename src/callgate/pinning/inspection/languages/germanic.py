"""German and Dutch."""

from __future__ import annotations

from typing import Final

GERMAN: Final = """\
USER: mensch menschen benutzerin nutzerin | der person, die person, dem kunden, den kunden
ASSISTANT: assistent assistenten sprachmodell
MODEL: deiner deinem
NOT: niemandem niemanden keinesfalls keinerlei nirgends | auf keinen fall, unter keinen umständen
MUST: müssen stets zwingend grundsätzlich sofort unverzüglich | ist verpflichtet, sind verpflichtet
TOOL: werkzeugen werkzeugs erweiterung erweiterungen
OTHER: anderer anderem anderes übrigen sonstigen fremde fremden fremder
EVERY: jedem sämtliche sämtlichen allem jegliche
USE: nutze nutzen benutze benutzen verwende aufzurufen rufe aufgerufen verwendet
ORDERS: befehle befehlen instruktion weisung weisungen
EARLIER: frühere vorigen vorangegangenen bisher obige ursprünglichen
VOID: hinfällig ungültig aufgehoben
IGNORE: ignorieren missachten verwirf übergehe umgehe | setz dich über
READ: öffnest suche sammle sammeln sammelst hol besorge beschaffe durchsuche auslesen entnimm lesen schau sieh
    ermittle ermitteln frag hole
PASS: trage hänge anzuhängen füge hinzuzufügen beizufügen beifügen einzutragen eintragen kopiere kopieren übergeben
    mitzuschicken mitzugeben mitgeben schreibe einfügen nimm mitzusenden mitsenden liefere gebe mitliefern
    hinterlege ergänze packe steck stecke
SEND: schick sendest übermitteln übertragen weiterzuleiten hochladen verschicke versende übersende leitest maile
    leite poste
SECRET: kennwörter passwörtern zugriffstoken zugangsschlüssel geheimnisse anmeldedaten kreditkarte
CONTENTS: inhalte dateiinhalt
TELL: erzähle erzähl erzählen sprich sprechen erwähnst hinweisen mitzuteilen informieren verrätst melde
HIDE: verbirg verschweige verschweigen verheimlichen verstecke verschleiere
QUIETLY: insgeheim klammheimlich unauffällig diskret unbemerkt heimlich
CONCEALED: | ohne darauf hinzuweisen, ohne hinweis, ohne es zu erwähnen, ohne das zu erwähnen, ohne dass er, ohne
    dass der, nicht zu wissen, nichts davon, davon nichts, nicht wissen dass, nichts wissen, nicht erfahren, nichts
    erfahren, für dich behalten, bleibt unter uns, nicht erwähnen, nicht erwähnt, ohne ein wort, kein wort, nicht
    bemerken, nichts merken, hinter dem rücken, ohne wissen, ohne sein wissen, nicht mit dass, nirgends erwähnt,
    braucht nichts, muss nichts davon
TALK: gesprächs chatverlauf unterhaltung dialogs konversation | bisherigen nachrichten, was der nutzer, was der
    benutzer, alle nachrichten
INNER: systemprompt systemanweisung systemanweisungen systemnachricht | deine anweisungen, deine werkzeuge, deiner
    werkzeuge, verfügbaren werkzeuge, verfügbaren werkzeugen, deine erinnerung*, dein kontext, interne überlegungen
WHOLE: wortwörtlich wörtlich vollständig komplett komplette kompletten ungekürzt unverändert sämtliche
ELSEWHERE: | in dieser sitzung, dieser sitzung, andere werkzeuge, anderen werkzeuge, anderer werkzeuge, anderen
    server*, anderer server, andere server, anderer anbieter, anderen anbieter*, ergebnisse anderer
PRIVATE: kontakte adressbuch zwischenablage posteingang gehalt kontonummer kreditkartennummer steuererklärung |
    persönliche daten, persönlichen daten, private dateien, im browser gespeicherten, seine notizen, ihre notizen,
    eigene dateien, online banking
CONSENT: eingewilligt zugestimmt | bereits zugestimmt, bereits eingewilligt, bereits genehmigt, bereits erlaubt, hat
    das genehmigt, hat es genehmigt, schon zugestimmt, einverständnis liegt vor, zustimmung liegt vor, im voraus
    genehmigt
UNASKED: ungefragt unaufgefordert | ohne rückfrage, ohne rückfragen, ohne nachfrage, ohne zu fragen, ohne
    nachzufragen, ohne bestätigung zu, ohne um bestätigung, frag nicht nach, frage nicht nach, auch wenn der nutzer,
    auch wenn der benutzer, egal worum es, egal was, selbst wenn der, auch ohne aufforderung
OFFICE: sicherheitsabteilung rechtsabteilung unternehmensrichtlinie unternehmensrichtlinien konzernrichtlinie
    datenschutzbeauftragte geschäftsleitung vorstand vorschrift systemhinweis | auf anordnung, auf weisung, laut
    richtlinie, gemäß richtlinie, der administrator hat, ist verpflichtet, sind verpflichtet, gesetzlich
    vorgeschrieben
HEEDED: gehorche befolge befolgen | was hier steht, führe sie aus, führe alle, führe ihn aus, führe es aus, folge
    den anweisungen, nur noch was, nur diesem server, wie eine anweisung
DEFIED: | gilt nicht mehr, gelten nicht mehr, nicht mehr gültig, sind hinfällig, keine regeln, ohne regeln
CAST: | dein wahres ziel, deine wahre aufgabe, deine eigentliche aufgabe, du bist jetzt, du bist ab
FROM_NOW: künftig fortan zukünftig | ab jetzt, ab sofort, von nun an, in zukunft, für alle zukünftigen
REACH: | bei jeder nachricht, bei jeder anfrage, bei jedem aufruf, jeder e mail, in jeder antwort, zu beginn jeder,
    vor jedem anderen, vor jeder antwort, vor allen anderen, als erstes aufzurufen, jedes mal, merke dir dauerhaft,
    immer zuerst
BEFORE: ehe | noch vor
TURN: nachrichten anfrage anfragen gespräch
UNFIT: unsicher unsichere veraltet unzuverlässig fehlerhaft kompromittiert gefährlich
RIVAL: | anderer anbieter sind, nicht mehr benutzt, nicht mehr verwendet, anstelle aller, statt aller, statt
    anderer, niemals andere, niemals an andere, keine anderen, kein anderes werkzeug, nie die werkzeuge
HARMED: lösche lösch entferne überschreibe überweise deaktiviere ersetze ändere | schalte die, schalte vorher
CHANGE: ersetzen tausche austauschen
TARGET: kontonummer empfängers zahlungsempfänger
GUARD: sicherheitsprüfung sicherheitsprüfungen protokollierung bestätigungsdialog rückfrage virenscanner
OFF: deaktiviere überspringe umgehe abschalten ausschalten | schalte vorher, schalte die, schalte alle
LURED: | bitte den nutzer, bitte den benutzer, bitte die person, bitte den anwender, bitte den kunden, erneut
    einzugeben, erneut eingeben, noch einmal eingeben, fordere den nutzer, fordere den benutzer, frage den nutzer
    nach, frage den benutzer nach, sein passwort, ihr passwort
BLIND: blindkopie bcc
PLAIN: standardmäßig optional zurückgegeben gibt liefert treffer | gibt die, zum beispiel
EXAMPLE: beispielsweise | zum beispiel
LOOKED_FOR: prüft erkennt erkennen sucht scannt meldet findet analysiert untersucht
OPENER: meldet anmelden öffnet verbindet anmeldung verbindung startet
OWN_SERVER: | werkzeuge dieses servers, werkzeugen dieses servers, werkzeug dieses servers, tools dieses servers
KEPT: verschlüsselt geschwärzt maskiert | nur lokal, lokal gespeichert, verlässt den rechner nie, verlässt nie,
    werden nicht gespeichert, wird nicht gespeichert, nie gespeichert, unkenntlich gemacht, nicht protokolliert
LEAVE_ASKED: ausdrücklich | frage den benutzer immer um, frage den nutzer immer um, um bestätigung bitten, um
    bestätigung bevor, den benutzer um bestätigung, den nutzer um bestätigung, ausdrückliche zustimmung,
    ausdrücklicher zustimmung, zeige dem benutzer, zeige dem nutzer, informiere den nutzer, informiere den benutzer,
    nur wenn der nutzer, nur wenn der benutzer, bestätige mit, vom benutzer bestätigen, vom nutzer bestätigen, weise
    den benutzer, weise den nutzer, warne den, frag nach
HOST: umgebungsvariablen umgebungsvariable | home verzeichnis, persönlichen ordner
TOLD: behaupte vorgeben vortäuschen | falls er fragt, wenn er fragt, falls gefragt, auf nachfrage, sag ihm dass,
    antworte dass, tu so als
OUTWARD: externen externer | unser server, unseren server, unserem server, an uns, öffentlichen kanal
REPLIED: | deine antwort, deiner antwort, in die antwort, jede antwort, am ende jeder
SINK: | in das feld, im feld, ins feld, in den parameter, an den parameter, im parameter, als parameter
LOOPED: endlos | immer wieder, so lange bis, wiederhole das
VARIABLES: umgebungsvariablen umgebungsvariable
"""

DUTCH: Final = """\
USER: gebruikers mens klant klanten degene
ASSISTANT: assistent taalmodel
MODEL: jij jouw
NOT: niets niemand geen nergens
MUST: moet moeten altijd verplicht onmiddellijk steeds
TOOL: hulpmiddel hulpmiddelen gereedschap
OTHER: ander anders overige
EVERY: elke ieder iedere alles | elk ander, elk bericht, elk verzoek
USE: gebruik gebruiken aangeroepen aanroepen roep
ORDERS: instructie instructies opdrachten aanwijzingen
RULES: regels beperkingen
EARLIER: eerdere vorige voorgaande bovenstaande
IGNORE: negeren vergeet
READ: lezen verzamel verzamelen ophalen zoek doorzoek kopieer bekijk kijk vraag raadpleeg
PASS: zet voegen plaats vul schrijf kopieer geef doorgeven plak vermeld invullen meegeven | geef ze mee, geef het
    mee
SEND: stuurt sturen verzend verzenden mailen doorsturen upload meesturen
SECRET: wachtwoord wachtwoorden toegangstoken inloggegevens geheimen sleutels privésleutel creditcard
CONTENTS: inhoud
TELL: vertellen zeggen vermeld vermelden noemen meld informeer laat
HIDE: verberg verbergen verzwijg verzwijgen
QUIETLY: stiekem heimelijk stilletjes ongemerkt onopgemerkt
CONCEALED: | niet te weten, niets weten, zonder dat de, zonder het te vermelden, zonder te vermelden, aan niemand,
    tegen niemand, hou dit voor, houd dit voor, geen woord, niet te vermelden, niets over, mag niet weten, mag niet
    merken, iets over deze stap
TALK: gesprek gesprekken chatgeschiedenis | eerdere berichten, alle berichten
INNER: systeemprompt systeeminstructies | je instructies, je tools, jouw tools, beschikbare tools, je geheugen,
    beschikbare hulpmiddelen
WHOLE: volledige volledig letterlijk gehele ongewijzigd | woord voor woord, tot nu toe
ELSEWHERE: | andere tools, andere hulpmiddelen, andere servers, in deze sessie, deze sessie, andere aanbieders
PRIVATE: contacten adresboek klembord rekeningnummer kaartnummer salaris | persoonlijke gegevens, zijn documenten,
    hun documenten, van de bank, in de browser
CONSENT: ingestemd | al toestemming, al akkoord, reeds toestemming, heeft dat goedgekeurd, heeft dit goedgekeurd, al
    goedgekeurd
UNASKED: | zonder om bevestiging, zonder bevestiging te, zonder te vragen, zonder toestemming te, vraag niet om, ook
    als de gebruiker, ongeacht wat, zelfs als de
OFFICE: beveiligingsafdeling bedrijfsbeleid veiligheidsdienst directie | volgens het beleid, op last van, de
    beheerder heeft, is verplicht, zijn verplicht
HEEDED: gehoorzaam opvolgen | voer ze uit, voer het uit, volg alleen, luister alleen
DEFIED: | gelden niet meer, geldt niet meer, geen regels
FROM_NOW: voortaan | vanaf nu, van nu af
REACH: | bij ieder bericht, bij elk bericht, bij elke vraag, bij elk verzoek, elke vraag, telkens wanneer, elke
    keer, voor elk ander, altijd eerst, in elk antwoord
BEFORE: vóór voordat alvorens
FIRST: eerst
TURN: bericht berichten verzoek vraag
UNFIT: onbetrouwbaar onveilig verouderd
RIVAL: | nooit de hulpmiddelen, nooit de tools, geen andere, nooit via een andere, in plaats van andere
HARMED: verwijder wis overschrijf vervang wijzig
CHANGE: vervang wijzig verander
TARGET: rekeningnummer ontvanger
GUARD: beveiligingscontroles beveiligingscontrole logboeken bevestigingsvenster
OFF: uitschakelen | schakel eerst, schakel de, zet eerst
LURED: | vraag de gebruiker zijn, vraag de gebruiker om zijn, vraag de gebruiker naar, opnieuw in te voeren, opnieuw
    invoeren, zijn wachtwoord
BLIND: | blinde kopie
PLAIN: standaard optioneel geeft
EXAMPLE: bijvoorbeeld
LOOKED_FOR: controleert detecteert meldt zoekt herkent
OPENER: opent inloggen aanmelden verbindt
OWN_SERVER: | hulpmiddelen van deze server, tools van deze server, hulpmiddel van deze server
KEPT: versleuteld gemaskeerd | alleen lokaal, verlaat de machine nooit, niet opgeslagen, nooit opgeslagen
LEAVE_ASKED: uitdrukkelijk | gebruiker altijd om bevestiging, de gebruiker om bevestiging, om bevestiging voordat,
    uitdrukkelijke goedkeuring, laat de gebruiker, toon de gebruiker, informeer de gebruiker, alleen als de
    gebruiker, uitdrukkelijke toestemming, vraag ernaar
HOST: omgevingsvariabelen omgevingsvariabele
TOLD: beweer | als hij vraagt, als erom gevraagd, zeg dan dat, antwoord dat, doe alsof
OUTWARD: externe | onze server, onze servers, openbaar kanaal
REPLIED: | je antwoord, elk antwoord, in het antwoord
SINK: | in het veld, in de parameter, aan de parameter, als parameter
LOOPED: | steeds opnieuw, keer op keer, blijf herhalen
VARIABLES: omgevingsvariabelen omgevingsvariabele
"""
