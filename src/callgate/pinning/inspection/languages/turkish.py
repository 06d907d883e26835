"""Turkish. Its verb stands last and holds the negation, so what is not to be done is one word."""

from __future__ import annotations

from typing import Final

TURKISH: Final = """\
USER: kullanıcı* müşteri* insan kişiye kişinin kişi
ASSISTANT: asistan* yapay zeka
MODEL: senin sana seni
NOT: asla hiçbir sakın değil olmadan kimseye | gerek yok, hiçbir şekilde
MUST: daima mutlaka zorundadır zorunda zorunlu gerekir hemen derhal çağrılmalıdır çağrılmalı kullanılmalıdır
    gönderilmelidir yapılmalıdır | her zaman
TOOL: araç araçlar* araçları araçtan aracı aracın araca eklenti* sunucu*
OTHER: diğer diğerleri başka öteki
EVERY: tüm bütün herhangi tümü tamamını
USE: kullan kullanın çağır çağırın çağrılmalı* çalıştır
ORDERS: talimat* komut* yönerge* emir emirler*
RULES: kural kurallar* kısıtlama*
EARLIER: önceki daha geçmiş yukarıdaki
IGNORE: görmezden unut unutun | yok say, yok sayın, göz ardı et, görmezden gel, dikkate alma
READ: okuyun topla toplayın bul getir oku incele kontrol
PASS: ekle ekleyin koy koyun kopyala kopyalayın aktar yapıştır ilet yerleştir doldur verin | alanına yaz,
    içine yaz
SEND: gönder gönderin yolla yollayın iletin ilet aktarın göndermek yükle paylaş
SECRET: şifre* parola* anahtarını anahtarı anahtarlar* jeton* | kimlik bilgi*, erişim anahtar*, kredi kartı*
CONTENTS: içeriğini içeriği içeriğin içerik
HIDE: gizle gizleyin sakla saklayın
QUIETLY: gizlice sessizce çaktırmadan
CONCEALED: söyleme söylemeyin bahsetme bahsetmeyin bildirme bildirmeyin belirtme belirtmeyin anlatma duyurma
    söylemeden bahsetmeden bildirmeden bilmemeli | bilmesine gerek yok, haberi olmadan, haberi olmasın, fark
    etmemeli, fark ettirmeden, haber verme, haber vermeden, aramızda kalsın, müşteriden sakla, kullanıcıdan sakla,
    kullanıcıdan gizle, müşteriden gizle
TALK: konuşmanın konuşmayı konuşma konuşmalar* sohbet* diyalog
INNER: | sistem komut*, sistem istem*, sistem talimat*, sistem mesaj*, araçlarının listesi*, araçların listesi*,
    kullanılabilir araçlar*, kendi talimat*
WHOLE: tamamını tamamı eksiksiz aynen bütünüyle | kelimesi kelimesine, olduğu gibi, şimdiye kadar*
ELSEWHERE: | diğer araçların, diğer araçlar, başka araçlar*, başka sunucu*, diğer sunucu*, bu oturumda, bu
    oturumdaki
PRIVATE: maaş | banka şifre*, kişisel veri*, kişisel bilgi*, kart numara*, tarayıcıda kayıtlı, hesap numara*, özel
    dosya*
CONSENT: onayladı | zaten onay verdi, zaten onayladı, zaten kabul, zaten izin, onay verdi, izin verdi, önceden
    onay*, buna izin verdi
UNASKED: sormadan | onay almadan, izin almadan, onay istemeden, onay beklemeden, onay isteme, soru sormadan,
    istemese bile, ne derse desin, kullanıcı istemese*
OFFICE: mevzuat yönetmelik | güvenlik ekib*, güvenlik departman*, güvenlik birim*, şirket politika*, talimatı
    gereği, emri gereği, yönetici buna, yönetici izin, yasa gereği, göndermek zorunda*
HEEDED: itaat | itaat et, sunucuya itaat, sadece bu sunucu*, yalnızca bu sunucu*, harfiyen uygula*
DEFIED: | yok say, artık geçerli değil, göz ardı et, hiçbir kural*, kısıtlama olmadan
CAST: | artık sen, sen artık, gerçek görevin, asıl görevin
FROM_NOW: | bundan sonra, bundan böyle, şu andan itibaren
REACH: | her mesajda, her istekte, her soru, her yanıtta, her çağrıda, her defasında, araçlardan önce, araçtan önce,
    her şeyden önce, yanıt vermeden önce, cevap vermeden önce
OFTEN: otomatik
FIRST: öncelikle ilk
TURN: mesajda mesaj istek soru
UNFIT: güvenilmez güvensiz eski | güvenilir değil*
RIVAL: | araçlarını asla, başka araç kullan*, asla kullanma, başka araçları kullanma, araçlar yerine, güvenilir
    değil*
HARMED: sil silin değiştir kaldır devre kapat | devre dışı bırak
CHANGE: değiştir değiştirin
TARGET: alıcı* hesap
GUARD: | güvenlik kontrol*, günlük kaydı*, onay pencere*
OFF: kapat kapatın atla | devre dışı bırak
LURED: | yeniden girmesini iste, tekrar girmesini iste, şifresini iste, parolasını iste, şifresini yeniden,
    şifresini tekrar, parolasını yeniden, şifresini sor, girmesini iste
BLIND: | gizli kopya, gizli kopyaya
PLAIN: döndürür varsayılan isteğe | isteğe bağlı, varsayılan olarak
EXAMPLE: örneğin | gibi ifade*
LOOKED_FOR: inceler algılar tespit bulur bildirir denetler tarar
OPENER: oturum bağlanır giriş
OWN_SERVER: | bu sunucunun diğer araç*, bu sunucunun araç*, bu sunucunun tüm araç*, bu sunucudaki araç*
KEPT: maskelenir kaydedilmez | şifrelenmiş olarak, yerel olarak, asla çıkmaz, makineden asla
LEAVE_ASKED: açıkça | kullanıcıdan onay iste, kullanıcıya göster, açık onay*, kullanıcıya sor, kullanıcıya sorun,
    kullanıcıya bildir, kullanıcıyı bilgilendir, kullanıcıdan onay al, taslağı her zaman kullanıcıya
HOST: | ortam değişken*, ev dizin*
TOLD: sorulursa sorarsa | gibi davran, olduğunu söyle, diye cevap ver, diye yanıtla
OUTWARD: harici | bizim sunucu*, sunucumuza gönder*
REPLIED: yanıtına cevabına yanıtının
SINK: alanına parametresine parametresinde | parametre olarak
LOOPED: durmadan | tekrar tekrar
VARIABLES: | ortam değişken*
"""
