"""Russian and Polish."""

from __future__ import annotations

from typing import Final

RUSSIAN: Final = """\
USER: пользовател* человек* людям клиент* заказчик* собеседник*
ASSISTANT: ассистент* помощник* агент* нейросет* | языковая модель
MODEL: тебе твоих твоем своих
NOT: нельзя никто никаких ничего нигде незачем никакой никакие | ни в коем случае, ни при каких
WITHOUT: без
MUST: должна должны обязан* обязательно нужно необходимо следует немедленно непременно надо
TOOL: инструмент* плагин* сервер* расширени*
OTHER: други* другого другом остальн* чуж* иной иные сторонн*
EVERY: всех всем всеми всю всё любого любом любую любым любые кажд* всяк*
USE: используй* использу* вызови* вызыва* вызвать запуска* запусти* применя*
ORDERS: инструкци* указани* приказ* команд* предписани*
RULES: правил* ограничени* запрет*
EARLIER: предыдущ* прежн* ранее раньше предшествующ* прошл* всех исходн*
IGNORE: игнорируй* проигнорируй* забудь* отбрось* пренебре* обойди* | не обращай внимания
VOID: недействительн* отменен* аннулирован*
READ: прочита* прочти* открой* собери* найди* извлеки* считай* загрузи* возьми* скопируй* получи* посмотри* изучи*
    проверь* выясни*
PASS: вставь* приложи* прикрепи* передай* передавай* добавь* добавляй* помести* впиши* запиши* укажи* скопируй*
    ставь* подставь* внеси* включи*
SEND: отправь* отправляй* перешли* пересылай* вышли* выслать загрузи* передать
SECRET: парол* токен* секрет* ключей ключами кошел* учетных учетные | номер карты, данные карты
CONTENTS: содержим*
TELL: говори говорите сообщай* рассказывай* расскажи* упоминай* раскрывай* уведомляй* информируй* показывай*
    объясняй*
HIDE: скрыва* скрой* спрячь* утаи* утаива* умалчива*
QUIETLY: тайно втайне тайком незаметно скрытно украдкой исподтишка негласно
CONCEALED: скрывай* утаи* умолчи* умалчива* | незачем знать, не должен знать, не нужно знать, не надо знать, не
    должен узнать, не узнал, без ведома, не говори, не говорите, не рассказывай*, не упоминай*, не сообщай*, не
    раскрывай*, никому об этом, об этом не, без упоминани*, без уведомлени*, между нами, не показывай*, в тайне, в
    секрете, чтобы пользователь не, не ставя в, не зная
TALK: переписк* диалог* беседы беседу разговор* чата | история сообщений, историю сообщений, историю чата
INNER: | системный промпт, системного промпта, системную подсказк*, системные инструкц*, системных инструкц*,
    доступных инструмент*, доступные инструмент*, своих инструмент*, твои инструкц*, свои инструкц*, свою память
WHOLE: дословно целиком полностью полную полного полное полные всю весь | слово в слово, без изменений
ELSEWHERE: | других инструмент*, другие инструмент*, остальных инструмент*, других сервер*, другого сервер*, этого
    сеанса, этой сессии, в этом сеансе, другим инструмент*, другими инструмент*
PRIVATE: контакты контактов зарплат* паспорт* | от банка, личные данные, личных данных, его документы, его файлы,
    персональные данные, адресная книга, адресную книгу, буфер обмена, в браузере, историю браузера, номер карты,
    банковские данные, банковских данных
CONSENT: | уже дал согласие, уже дал, уже согласился, уже разрешил, уже одобрил, это одобрил, это разрешил, дал
    согласие, уже согласован*, заранее одобрен*, согласие получено, администратор одобрил, согласие уже
UNASKED: | без подтвержден*, без спроса, без вопросов, без запроса, без разрешени*, не спрашива*, не спросив, не
    запрашива*, не дожидаясь, даже если пользовател*, что бы ни, без согласовани* с
OFFICE: регламент* обязан | служба безопасности, службы безопасности, отдела безопасности, отдел безопасности, по
    требованию, по приказу, политика компании, политике компании, политикой компании, администратор это, по
    распоряжению, согласно закону
HEEDED: повинуйся подчиняйся слушайся | выполни все, выполняй все, следуй только, выполняй только, действуют только,
    делай то, следуй инструкц*, выполни их, выполняй их
DEFIED: отменяются | больше не действу*, не действуют, без ограничений, никаких правил, утратили силу
CAST: | теперь ты, отныне ты, твоя настоящая, твоя истинная
FROM_NOW: отныне впредь | с этого момента, с этой минуты, начиная с этого
REACH: | при каждом сообщени*, при каждом запрос*, при каждом вызов*, при каждом ответ*, на каждое сообщени*, каждый
    раз, в каждом ответе, в каждое сообщени*, к каждому ответ*, к каждому письм*, любой вопрос, любой запрос, раньше
    любого, раньше всех, перед любым, перед каждым, перед ответом, прежде любого, прежде чем ответить, до любого, в
    первую очередь
BEFORE: раньше прежде
FIRST: сначала сперва первым вначале
TURN: сообщени* запрос* вопрос* ответ*
UNFIT: ненадежн* устарел* небезопасн* взломан* опасн* сломан*
RIVAL: | никакой другой, никакие другие, никаких других, вместо других, вместо любого, вместо всех, не используй*,
    только этот инструмент, другими инструмент* не
HARMED: удали удаляй удалите удаляйте сотри замени заменяй подменяй подмени переведи отключи отключите очисти
CHANGE: замени* подмен* измени*
TARGET: получател* счета счёта реквизит*
GUARD: журналировани* подтверждени* безопасности проверки
OFF: отключи* пропусти* выключи* обойди*
LURED: | попроси пользовател*, попросите пользовател*, запроси у, узнай у, попроси клиент*, заново ввести, снова
    ввести, повторно ввести, ввести пароль, его пароль, свой пароль
BLIND: | скрытую копию, скрытой копии, скрытая копия
A_COPY: копии
PLAIN: возвращает необязател* умолчанию результатов | по умолчанию
EXAMPLE: например
LOOKED_FOR: проверяет обнаруживает находит отмечает анализирует выявляет ищет
OPENER: открывает вход авторизу* подключает подключается начинает
OWN_SERVER: | инструментами этого сервера, инструментов этого сервера, инструментам этого сервера
KEPT: зашифрован* замаскирован* локально | в зашифрованном виде, никогда не покидает, не сохраня*, не покида*,
    скрыты в
LEAVE_ASKED: явно | подтверждение у пользовател*, подтверждения пользовател*, подтверждение пользовател*, явного
    согласия, прямо об этом, покажи черновик, покажите пользовател*, покажи пользовател*, спросите пользовател*,
    спроси пользовател*, только если пользовател*, с согласия пользовател*, сообщите пользовател*, сообщи
    пользовател*, предупредите пользовател*, согласуйте с
HOST: | переменные окружения, переменных окружения, переменную окружения, домашнего каталога, домашнюю папку
TOLD: притворись притворяйся утверждай соври | если спросят, если спросит, если пользователь спросит, ответь что,
    скажи что, отвечай что, сделай вид
OUTWARD: внешн* | наш сервер, нашего сервера, открытый канал
REPLIED: | в ответ, своих ответ*, своем ответ*, каждом ответ*
SINK: | в поле, в параметр, в параметре, как параметр
LOOPED: бесконечно | снова и снова, раз за разом
VARIABLES: | переменные окружения, переменных окружения, переменную окружения
"""

POLISH: Final = """\
USER: użytkownik* klient klienta klientowi klientem klienci człowiek* osoba osobie osoby
ASSISTANT: asystent* asystenta | model językowy
MODEL: twój twoje twoich swój swoje swoich
NOT: nikomu nikt nigdy żaden żadnym żadnych niczego | pod żadnym pozorem
WITHOUT: bez
MUST: musi musisz muszą należy zawsze obowiązek natychmiast koniecznie trzeba powinien obowiązkowo
TOOL: narzędzi* wtyczk* serwer serwera serwerów serwery
OTHER: inne innych innym innymi innego inny inna pozostał*
EVERY: każdy każda każde każdym każdej każdego wszystk* dowoln* jakiekolwiek jakimkolwiek
USE: używaj użyj używać wywołać wywołaj wywołuj uruchom uruchamiaj wykonaj
ORDERS: instrukcji poleceni* polecen rozkaz* wytyczn*
RULES: zasady zasad reguły ograniczeni*
EARLIER: wcześniejsze wcześniejszych poprzednich dotychczasow* wszystkie pierwotne
IGNORE: ignoruj zapomnij pomiń zlekceważ | nie zważaj
READ: przeczytaj otwórz zbierz znajdź wyszukaj skopiuj odczytać przejrzyj sprawdź zobacz zajrzyj przeszukaj
PASS: wpisz wklej dołącz dodaj dodawaj podaj umieść załącz skopiuj przekazuj zapisz przekaż wstaw wprowadź
SEND: wyślij wysyłaj prześlij przesyłaj przekaż przesłać wysłać udostępnij
SECRET: hasło hasła haseł hasłem klucze tokenu tajne | token dostępu, klucz prywatny, klucz dostępu, numer karty
CONTENTS: zawartość treść zawartości
TELL: mów mówić wspominać ujawniaj powiedz powiadamiaj pokazuj zdradzaj opowiadaj
HIDE: ukryj ukrywaj zatajaj przemilcz zataj
QUIETLY: potajemnie ukradkiem skrycie niepostrzeżenie dyskretnie
CONCEALED: ukryj zataj przemilcz | nie musi wiedzieć, nie powinien wiedzieć, nie może wiedzieć, nie mów, nie
    wspominaj, nie informuj, nie ujawniaj, nikomu o tym, o tym nie, bez wiedzy, bez informowania, bez wspominania,
    nie zdradzaj, między nami, w tajemnicy, tak aby użytkownik nie, żeby użytkownik nie
TALK: rozmowę rozmowy czatu konwersacj* dialog | historia rozmowy, historię czatu, poprzednie wiadomości
INNER: | prompt systemowy, promptu systemowego, twoje instrukcje, swoich narzędzi, listę narzędzi, dostępnych
    narzędzi, dostępne narzędzia, swoje instrukcje, swoją pamięć, komunikat systemowy
WHOLE: całą cały całość całości dosłownie kompletn* pełną pełny | słowo w słowo, bez zmian
ELSEWHERE: | innych narzędzi, inne narzędzia, pozostałe narzędzia, pozostałych narzędzi, innych serwerów, innego
    serwera, tej sesji, w tej sesji
PRIVATE: kontakty schowek wynagrodzeni* pesel | do banku, dane osobowe, danych osobowych, jego dokumenty, jego
    pliki, numer karty, w przeglądarce, książka adresowa, dane bankowe
CONSENT: | już wyraził zgodę, już wyraził, już się zgodził, już zatwierdził, to zatwierdził, wyraził zgodę, już
    zezwolił, zgoda została
UNASKED: | bez pytania, bez potwierdzeni*, bez pytań, nie pytaj, bez czekania, nawet jeśli użytkownik, nie proś o,
    bez prośby o
OFFICE: regulamin* obowiązek | działu bezpieczeństwa, dział bezpieczeństwa, polityką firmy, polityka firmy, zgodnie
    z polityką, administrator to, na polecenie, zespół bezpieczeństwa, ma obowiązek, zgodnie z prawem
HEEDED: słuchaj posłuchaj | wykonaj wszystkie, wykonuj wszystkie, słuchaj wyłącznie, rób to, wykonaj je
DEFIED: | już nie obowiązuj*, nie obowiązują, bez ograniczeń, żadnych zasad
CAST: | teraz jesteś, od teraz jesteś, twoje prawdziwe, twoim prawdziwym
FROM_NOW: odtąd | od teraz, od tej chwili, od tej pory
REACH: | przy każdej wiadomo*, przy każdym zapytani*, przy każdym wywołani*, w każdej wiadomości, każda wiadomość,
    każde pytanie, każde zapytanie, za każdym razem, przed każdym, przed jakimkolwiek, przed wszystkimi, w każdej
    odpowiedzi, przed udzieleniem odpowiedzi, zanim odpowiesz
BEFORE: przed zanim
FIRST: najpierw
TURN: wiadomość wiadomości zapytani* odpowiedź
UNFIT: zawodne przestarzałe niebezpieczne zepsute
RIVAL: | nigdy do innego, nie używaj, żadnego innego, zamiast innych, żadnych innych, nigdy innych, innych narzędzi
    nie
HARMED: usuń usuwaj skasuj zamień zamieniaj podmień wyłącz nadpisz przelej
CHANGE: zamień zamieniaj podmień zmień zastąp
TARGET: konta odbiorcy
GUARD: dzienniki | kontrole bezpieczeństwa, kontroli bezpieczeństwa
OFF: wyłącz wyłączyć pomiń
LURED: | poproś użytkownika o ponowne, poproś użytkownika o hasło, poproś użytkownika o podanie, poproś klienta o,
    podanie hasła, ponowne podanie, wpisał ponownie, jego hasło, swoje hasło
BLIND: | ukrytej kopii, ukryta kopia, ukrytą kopię, kopii ukrytej
PLAIN: zwraca opcjonaln* domyślnie wyników
EXAMPLE: | na przykład, takie jak
LOOKED_FOR: sprawdza wykrywa zgłasza znajduje analizuje
OPENER: otwiera logowanie łączy loguje
OWN_SERVER: | narzędziami tego serwera, narzędzi tego serwera, narzędzia tego serwera
KEPT: zaszyfrowan* maskowane lokalnie | nigdy nie opuszcza, nie są zapisywane, w postaci zaszyfrowanej
LEAVE_ASKED: wyraźnie | użytkownika o potwierdzenie, wyraźnej zgody, pokaż użytkownikowi, poinformuj użytkownika,
    zapytaj użytkownika, tylko jeśli użytkownik, za zgodą, ostrzeż użytkownika, potwierdź z
HOST: | zmienne środowiskowe, zmiennych środowiskowych, katalog domowy
TOLD: udawaj twierdź | jeśli zapyta, jeśli ktoś zapyta, odpowiedz że, powiedz że
OUTWARD: zewnętrzn* | nasz serwer, naszego serwera, publiczny kanał
REPLIED: | swojej odpowiedzi, każdej odpowiedzi, twojej odpowiedzi
SINK: | w polu, do pola, do parametru, jako parametr
LOOPED: | w kółko, raz za razem, bez końca
VARIABLES: | zmienne środowiskowe, zmiennych środowiskowych
"""
