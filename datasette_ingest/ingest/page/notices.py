"""What the pages say that stand in the way, in the languages of journals and repositories. Words only; walls.py
decides what follows from them.

A notice is a title, a heading or a first sentence. Some say a thing only as a whole ("Not found" is one, "Not found in
nature: alkaloids of the moss" is a paper), others from their first words on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_REST = 70
"""What may follow the opening words of a notice, in characters."""


@dataclass(frozen=True)
class Notice:
    """The words of one kind of notice."""

    whole: re.Pattern[str]
    opening: re.Pattern[str]

    def is_whole(self, text: str) -> bool:
        """Whether the text says this and nothing else."""
        return self.whole.fullmatch(text) is not None

    def is_opening(self, text: str) -> bool:
        """Whether the text says this first, and little more; what follows a colon must say it again, for titles of
        works go on in this way."""
        match = self.opening.match(text)
        if match is None or len(text) - match.end() > MAX_REST:
            return False
        rest = text[match.end() :].lstrip()
        return len(rest) <= 1 or rest[0] not in ":?" or self.says(rest[1:].strip(" .!"))

    def says(self, text: str) -> bool:
        return self.is_whole(text) or self.is_opening(text)


def _any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{alternative})" for alternative in alternatives), re.IGNORECASE)


_ERROR = r"(?:(?:https?|status|server)\s*)?(?:error|fehler|erreur|erro|errore|fout|błąd|chyba|ошибка|помилка|hata|kesalahan|错误|エラー|오류|خطأ)"

_CODE_REST = r"(?:\s*(?:[-–—|(,.!]|error|page|not found|forbidden|unauthorized).{0,60})?"

LOGIN = Notice(
    whole=_any(
        # English
        r"(?:please |you (?:must|need to|have to) )?(?:(?:user|member|institutional|library|account|secure|remote|web|central|patron|student|reader|off-campus|staff)s? ){0,2}"
        r"(?:log[\s-]?in|log[\s-]?on|sign[\s-]?in|sign[\s-]?on)(?: (?:page|required|form|service|options|here|now|first|screen|portal))?",
        r"(?:member|user|subscriber)s?'? (?:only|area|access)|restricted area|authori[sz]ation required",
        r"(?:central |web |user )?authentication(?: (?:required|service|portal|page|system))?",
        r"institutional (?:login|access|sign[\s-]?in)|where are you from|(?:account|user|member) (?:login|access)",
        # names of the products
        r"shibboleth|openathens|eduroam|edugain|ezproxy|cas|adfs|okta|keycloak",
        # German, French
        r"(?:bitte )?(?:anmelden|anmeldung|einloggen|log-?in|nutzeranmeldung|benutzeranmeldung)(?: erforderlich)?",
        r"(?:se )?connexion|connectez-vous|identifi(?:cation|ez-vous)|authentification",
        # Spanish, Portuguese, Italian
        r"inicia(?:r)? (?:la )?sesi[oó]n|acceso (?:de )?usuarios|identif[ií]quese|acceder|ingres[ao]r?|entrar",
        r"iniciar sess[aã]o|fazer login|acesso restrito|autentica[cç][aã]o|identifica[cç][aã]o",
        r"acced[ií]|autenticazione|accesso (?:utenti|riservato)|area riservata",
        # Dutch, Scandinavian, Finnish
        r"(?:aan|in)loggen|aanmelden|logga in|logg inn|log på|log ind|kirjaudu(?: sisään)?|kirjautuminen",
        # Slavonic, Hungarian, Romanian
        r"zaloguj(?: się)?|logowanie|přihlá(?:šení|sit se)|prihlásenie|prijava|bejelentkezés|autentificare",
        r"conectare|вход(?: в систему)?|войти|авторизация|увійти|вхід|авторизація",
        # Turkish, Indonesian, Vietnamese, Arabic, Persian
        r"(?:kullanıcı |üye )?giriş(?:i| yap(?:ın)?)?|oturum aç(?:ın)?|masuk|log masuk|đăng nhập|تسجيل الدخول",
        r"ورود(?: به سامانه)?",
        # Chinese, Japanese, Korean
        r"(?:用户|用戶|会员|會員|读者|统一身份|系统)?(?:登录|登錄|登入|登陆)(?:系统|页面)?|统一身份认证(?:平台|系统)?|请先?登录",
        r"(?:会員|利用者)?(?:ログイン|サインイン)(?:画面|ページ)?|로그인",
    ),
    opening=_any(
        r"(?:please )?(?:log[\s-]?in|log[\s-]?on|sign[\s-]?in)(?:,? please\b| (?:to|with|via|through|using|into|at|or|for|and)\b)",
        r"(?:shibboleth|openathens|edugain|ezproxy|cas|adfs)\s*(?:[-–—:]|log[\s-]?in|sign[\s-]?in|authentication|central)",
        r"(?:single|web) sign-?on\b|central authentication",
        r"(?:.{0,40}\s)?(?:ezproxy|openathens|shibboleth|proxy|library) (?:log[\s-]?in|sign[\s-]?in|authentication)\b",
        r"(?:find|select|choose|search for) (?:your|an?|my) (?:home |member )?(?:institution|organi[sz]ation|identity provider|university|library|federation)\b",
        r"access (?:this content )?through your (?:institution|organi[sz]ation|library)",
        r"members? of .{1,50} (?:log|sign) in",
        r"(?:einrichtung|heimateinrichtung|hochschule|institution) (?:aus)?wählen",
        r"wählen sie ihre (?:einrichtung|hochschule|heimat)|(?:anmelden|anmeldung|login) (?:über|mit|bei|am)\b",
        r"choisi(?:r|ssez) (?:votre|un) (?:établissement|organisme|institution)",
        r"connexion (?:à|au|par|avec|via|requise)|connectez-vous (?:à|pour|avec)",
        r"authentification (?:requise|centralisée|du|de)",
        r"(?:seleccione|elija) su (?:instituci[oó]n|organizaci[oó]n|universidad)",
        r"(?:iniciar|inicie) sesi[oó]n (?:en|con|para|mediante)",
        r"acceso (?:con|mediante|a trav[eé]s de) (?:su|la)\b",
        r"(?:selecione|escolha) (?:a )?sua institui[cç][aã]o",
        r"(?:iniciar sess[aã]o|entrar|acesso|login) (?:com|via|na sua|pela|no sistema)",
        r"seleziona(?:re)? (?:il tuo|l'|la tua) (?:ente|istituzione|organizzazione|università)",
        r"accedi (?:con|a|al|tramite)\b",
        r"(?:selecteer|kies) (?:je|uw|jouw) (?:instelling|organisatie)|(?:aanmelden|inloggen) (?:bij|via|met)",
        r"välj (?:din|ditt) (?:organisation|lärosäte)|wybierz (?:swoją )?(?:instytucję|organizację|uczelnię)",
        r"zaloguj się (?:przez|do|za)|vyberte (?:svou|svoji) (?:instituci|organizaci)",
        r"(?:выберите|укажите) (?:вашу |свою )?(?:организацию|учреждение|библиотеку)",
        r"вход (?:для|через|в личный|на сайт)|войдите (?:в|через)|авторизация (?:пользовател|чит|через)",
        r"kurumunuzu seçin|(?:kurumsal|üye) giriş|pilih (?:institusi|organisasi|perguruan)",
        r"(?:masuk|login) (?:ke|dengan|melalui)|请?选择(?:您的?|所在的?)?(?:机构|学校|单位|高校)|所属機関(?:の|を)選択",
        r"(?:기관|소속)(?:을|를)? 선택|اختر (?:مؤسستك|جامعتك)",
    ),
)
"""Somebody is asked for who they are."""

CHALLENGE = Notice(
    whole=_any(
        r"just a moment|attention required",
        r"(?:one (?:more|last) step|security|human|bot|robot|captcha|browser|access) (?:check|verification|challenge|detection|validation)",
        r"client challenge|captcha|pardon our interruption|challenge validation",
        r"(?:are|r) you (?:a |really )?(?:human|robot|bot)|(?:i am|i'm) not a robot",
        r"(?:robot|human|person) or (?:robot|human|bot)|verification(?: required)?|verifying",
        r"sicherheits(?:überprüfung|abfrage|prüfung|check)|sind sie ein (?:mensch|roboter)",
        r"vérification(?: de sécurité| humaine)?|êtes-vous (?:un )?(?:humain|robot)|contrôle de sécurité",
        r"verificaci[oó]n(?: de seguridad| humana)?|control de seguridad",
        r"(?:es|eres) (?:usted )?(?:un )?(?:humano|robot)|verifica[cç][aã]o(?: de seguran[cç]a| humana)?",
        r"você é (?:um )?(?:humano|robô)|verifica di sicurezza|controllo di sicurezza|sei umano",
        r"veiligheidscontrole|beveiligingscontrole|säkerhetskontroll|weryfikacja|kontrola bezpieczeństwa",
        r"bezpečnostní kontrola|проверка(?: безопасности| браузера)?|вы (?:не )?робот|перевірка безпеки",
        r"güvenlik (?:kontrolü|doğrulaması)|(?:verifikasi|pemeriksaan) keamanan|kiểm tra bảo mật",
        r"التحقق(?: الأمني)?|(?:安全|人机|机器人|滑动|访问)(?:验证|检测|检查|核验)|验证码|セキュリティ(?:チェック|確認)|認証|보안 (?:확인|검사)",
    ),
    opening=_any(
        r"just a moment|attention required",
        r"(?:please )?(?:verify|confirm|prove|make sure|making sure|let'?s (?:confirm|make sure)|checking|check|validate) (?:that |if |whether )?(?:you(?:'re| are|r)|the site|your)\b.{0,40}\b(?:human|robot|bot|person|browser|visitor|connection)",
        r"(?:we are )?(?:checking|verifying|validating) (?:you|your|the|that|if)\b|press (?:&|and) hold",
        r"ddos[\s-]protect|unusual (?:traffic|activity)|.{0,40}needs to review the security of your connection",
        r"to continue,? please (?:confirm|verify|solve|complete)",
        r"bestätigen sie,? dass sie (?:ein mensch|kein)|ihr browser wird (?:überprüft|geprüft)",
        r"(?:vérifi|confirm)\w+ que vous (?:êtes|n'êtes) (?:un |pas un )?(?:humain|robot)",
        r"vérification (?:de votre|que vous|du navigateur)",
        r"(?:confirme|verifique|compruebe|verifica|verificando|comprobando) que (?:usted )?(?:no )?(?:es|eres) (?:un )?(?:ser )?(?:humano|robot)",
        r"(?:verificando|comprobando) (?:su|tu|el) navegador",
        r"(?:confirme|verifique|prove) que (?:você )?(?:não )?(?:é|sou) (?:um )?(?:humano|robô)",
        r"verificando (?:o )?seu navegador|(?:conferma|verifica) (?:di|che) (?:essere|sei|non)",
        r"подтвердите,? что|проверка,? (?:что|браузера|на робота)|мы (?:хотим )?(?:убедиться|проверя\w+)",
        r"potwierdź,? że|insan olduğunuzu|robot olmadığınızı",
        r"(?:pastikan|konfirmasi|buktikan) (?:bahwa )?anda (?:bukan|manusia)",
        r"请(?:完成|进行|通过|点击|拖动|输入).{0,12}(?:验证|滑块|验证码)|(?:正在|系统)(?:检查|验证|检测)您的|(?:ロボット|人間)(?:で|では)(?:ない|ある|あり)",
        r"ブラウザを確認|사람인지 확인|التحقق من أنك",
    ),
)
"""Somebody is asked to prove that they are a person."""

CHALLENGE_TEXT = _any(
    r"(?:verify|confirm|prove|check|sure) (?:that )?you(?:'re| are)(?: a)? (?:human|person|not a (?:ro)?bot)",
    r"not a robot|checking (?:if the site|your browser)|complete the (?:security check|captcha|challenge)",
    r"(?:type|enter|write|copy|repeat) the (?:characters?|letters|digits|code|text|numbers?|words?)(?: (?:that|which) you see)? (?:shown|you see|in the (?:image|picture)|below|from the)",
    r"unusual (?:traffic|activity) from your|whether (?:or not )?you are a (?:human|ro?bot)",
    r"(?:solve|complete|fill in|pass) (?:the|this|a) (?:captcha|puzzle|challenge)",
    r"(?:blocks?|detect\w*|against) automated (?:requests|access|queries|traffic)|identified as a (?:ro)?bot",
    r"super-human speed",
    r"kein roboter|sicherheitsabfrage|geben sie (?:den|die) .{0,30}(?:zeichen|code)|pas un robot",
    r"recopie[rz] .{0,30}(?:caractères|code)|(?:saisissez|entrez) les caractères",
    r"no (?:soy|eres|es) un robot|(?:escriba|introduzca|ingrese) (?:los|el) (?:caracteres|código|texto)",
    r"não (?:sou|é) um rob[oô]|digite (?:os|o) (?:caracteres|código|texto)|non (?:sono|sei) un robot",
    r"(?:inserisci|digita) i caratteri",
    r"geen robot|nie jest(?:em|eś)? robotem|przepisz (?:kod|znaki)|не робот",
    r"введите (?:символы|код|текст) с (?:картинки|изображения)|robot (?:olmadığınızı|değilim)",
    r"(?:resimdeki|görseldeki) (?:karakter|kod|harf)|bukan robot|ketik(?:kan)? (?:karakter|kode)",
    r"不是机器人|人机验证|输入(?:图片|下图|图中|上图)?.{0,6}验证码|拖动.{0,6}滑块|ロボットではありません|画像(?:に表示|の文字|の中)|로봇이 아닙니다|لست روبوت|أنك لست",
)
"""The same within a sentence."""

_COOKIE = r"(?:cookies?|куки|çerez(?:ler)?|クッキー|쿠키|ملفات تعريف الارتباط)"

COOKIE = Notice(
    whole=_any(
        r"(?:error:? |please )?(?:(?:enable|allow|accept|activate|turn on|missing|no|set) )?(?:your )?(?:browser |session )?cookies?(?: (?:are |is |must be |need to be )?(?:required|absent|disabled|not (?:enabled|supported|accepted|set|found|allowed)|needed|missing|blocked|error|support|check|test|enabled|necessary))?(?: (?:in|to|for|by) .{1,50})?",
        r"(?:bitte )?cookies? (?:aktivieren|erforderlich|deaktiviert|zulassen|benötigt|nicht (?:aktiviert|erlaubt))",
        r"(?:keine|fehlende) cookies|(?:activer|activez|acceptez|accepter|autorisez|autoriser) les cookies",
        r"(?:les )?cookies? (?:désactivés?|requis|obligatoires?|nécessaires?|bloqués?)",
        r"(?:active|habilite|acepte|permita|debe activar) las cookies",
        r"(?:las )?cookies? (?:desactivadas|deshabilitadas|necesarias|requeridas|bloqueadas)",
        r"(?:habilite|ative|aceite) os cookies",
        r"(?:os )?cookies? (?:desativados|desabilitados|necessários|obrigatórios|bloqueados)",
        r"(?:abilita(?:re)?|attiva(?:re)?) i cookie|cookies? (?:disabilitati|richiesti|necessari)",
        r"cookies? (?:vereist|uitgeschakeld|inschakelen|krävs|kreves|påkrævet|vaaditaan)",
        r"(?:włącz|zaakceptuj) (?:obsługę )?(?:plik(?:i|ów) )?cookies?|(?:pliki )?cookies? (?:wyłączone|wymagane)",
        r"(?:включите|разрешите|требуются) (?:файлы )?(?:cookies?|куки)",
        r"(?:файлы )?(?:cookies?|куки) (?:отключены|заблокированы)",
        r"çerezler(?:i)? (?:etkinleştirin|kapalı|gerekli|devre dışı)|(?:aktifkan|izinkan) cookies?",
        r"cookies? (?:diperlukan|dinonaktifkan)|请(?:启用|开启|允许|打开).{0,6}cookies?",
        r"cookies? ?(?:已?被?禁用|未启用|が無効です|を有効にしてください|が必要です)|쿠키를 허용해 ?주세요",
    ),
    opening=_any(
        r"cookies? (?:are|is|must be|need to be) (?:disabled|required|needed|blocked|turned off|not (?:enabled|supported|accepted))",
        r"(?:please )?(?:enable|allow|turn on) (?:your )?cookies",
    ),
)
"""A browser that keeps no cookies is turned away."""

COOKIE_TEXT = _any(
    # In running text, only what a page cannot say of cookies that it merely uses.
    r"cookies? (?:are|is|were|has been|have been|seem to be|appear to be|must be|have to be|need to be|should be)(?: currently)? (?:disabled|enabled|turned (?:on|off)|blocked|accepted|allowed|not (?:enabled|accepted|supported|allowed))",
    r"(?:please|must|need to|have to|should) (?:enable|accept|allow|activate|turn on)(?: (?:the )?use of)? (?:session |browser |your )?cookies?\b",
    r"(?:enable|turn on) (?:session |browser )?cookies? (?:in|to|and|for|on)\b",
    r"(?:accept|allow) cookies (?:in order )?(?:to continue|to proceed|to access|in your browser)",
    r"browser (?:does not|doesn't|did not|didn't|must|is not configured to|is set to|has been set to|refuse[sd]?|reject(?:s|ed)|is blocking|blocks?)\b.{0,40}\bcookies?",
    r"requires? (?:that )?(?:your browser (?:to )?accepts? |the use of |session )?cookies?\b",
    r"could not (?:set|store|write) (?:a |the )?(?:session )?cookie|cookie absent|without (?:the use of )?cookies",
    r"cookies?_not_supported",
    r"cookies? (?:aktivieren|zulassen|akzeptieren|erlauben|sind (?:deaktiviert|abgeschaltet|nicht aktiviert))",
    r"(?:akzeptiert|erlaubt|unterstützt) keine cookies|ohne cookies|(?:activer|accepter|autoriser) les cookies",
    r"n'accepte pas les cookies|cookies (?:sont|étant|soient) (?:désactivés|bloqués|activés)",
    r"(?:activar|habilitar|permitir) (?:las|el uso de(?: las)?) cookies|no (?:acepta|admite) (?:las )?cookies",
    r"cookies est[aá]n? (?:desactivadas|deshabilitadas|bloqueadas)",
    r"(?:ativar|habilitar|permitir) (?:os|o uso de) cookies",
    r"cookies est[aã]o (?:desativados|desabilitados|bloqueados)|não aceita (?:os )?cookies",
    r"(?:abilitare|attivare) i cookies?|cookies? (?:sono )?disabilitati|non accetta i? ?cookie",
    r"cookies? (?:inschakelen|toestaan|accepteren)|cookies zijn (?:uitgeschakeld|geblokkeerd)",
    r"(?:włączyć|włącz|zezwól na) (?:obsługę )?(?:plik(?:i|ów) )?cookies?",
    r"nie (?:przyjmuje|akceptuje|obsługuje) (?:plików )?cookies?",
    r"(?:включи(?:те|ть)|разреши(?:те|ть)) (?:(?:использование|приём|прием|поддержку) )?(?:файл(?:ы|ов) )?(?:cookies?|куки)",
    r"(?:cookies?|куки) (?:отключены|заблокированы|выключены)|не принимает (?:файлы )?(?:cookies?|куки)",
    r"çerez(?:ler)?(?:i|in|e|lere)? (?:etkinleştir|kapalı|devre dışı|izin ver|kabul etm)\w*",
    r"(?:mengaktifkan|aktifkan|mengizinkan) cookies?|cookies? (?:dinonaktifkan|tidak aktif)",
    r"(?:启用|開啟|啟用|允许|打开|开启).{0,8}cookies?|cookies?.{0,8}(?:被禁用|已禁用|未启用|功能关闭)",
    r"(?:cookies?|クッキー)\s?(?:を有効|が無効|を許可|を受け入れ)|쿠키.{0,8}(?:허용|사용하도록)|(?:تمكين|تفعيل) ملفات تعريف الارتباط",
)

_THING = r"(?:page|web ?page|article|document|file|item|resource|url|content|doi|handle|paper|record|publication|link|site|object|journal|issue|abstract|manuscript|entry|identifier|address|view|host|job|thesis)"

MISSING = Notice(
    whole=_any(
        rf"(?:{_ERROR}(?: code)?[\s:#-]*)?(?:404|410){_CODE_REST}",
        r".{0,40}\(?(?:error|fehler|erreur|erro|code|ошибка|hata)\s?[#:-]?\s?404\)?|.{0,30}\b404 not found",
        rf"not found|gone|page missing|no such {_THING}",
        rf"(?:no|nothing)(?: (?:results?|matching record|matches|{_THING}))? (?:was |were )?found(?: here)?",
        rf"(?:invalid|unknown|bad|wrong) {_THING}(?: (?:identifier|id|number|requested))?|item withdrawn",
        r"(?:oops|sorry|uh-? ?oh|whoops)",
        rf"(?:doi|handle|{_THING}|object|result|view) (?:is |was )?(?:not found|missing|unavailable|not available|removed|deleted|expired)",
        r"missing (?:page|document|item)|(?:page|link) (?:error|expired|unavailable)|broken link",
        r"nicht gefunden|(?:seite|dokument|artikel) (?:nicht vorhanden|fehlt)|introuvable|non trouvée?",
        r"no encontrad[oa]|n[ãa]o encontrad[oa]|non trovat[oa]|niet gevonden|hittades inte|ikke funnet",
        r"ikke fundet|ei löydy|nie znaleziono|nenalezeno|nije pronađeno|nem található",
        r"не найдено|не знайдено|bulunamadı|tidak ditemukan|không tìm thấy|غير موجود|یافت نشد|未找到|找不到|页面丢失",
        r"見つかりません|찾을 수 없음",
    ),
    opening=_any(
        rf"(?:{_ERROR}\s*)?404(?=:)",
        # English: what is missing, then that it is
        rf"(?:(?:we'?re |we are )?(?:sorry|oops|uh-? ?oh|whoops|hmm|apologies)\W*(?:but )?)?(?:the |this |that |your |no )?(?:(?:requested|specified|given|web|dspace|repository) ){{0,2}}{_THING}s?\b"
        r"(?: (?:that |which )?(?:you(?:'re| are| were|'ve| have)? )?(?:requested|looking for|trying to (?:reach|access|view|open)|tried to (?:reach|access|open)|asked for|seek|followed|want|came from|was requested))?"
        r"(?: (?:[\w./:#\"'<>()-]+ ){1,4}?)?"
        r"\W*(?:(?:was|were|is|are|could|can|has|might)? ?(?:not|n't|cannot|can't|couldn't|wasn't|isn't|never) (?:be |been |yet )?(?:found|available|located|displayed|here|exist|on this server|recogni[sz]ed|retrieved)|(?:does not|doesn't|do not|don't|no longer|may not|not) (?:seem to |appear to )?exists?\b"
        r"|not found|(?:is |are )?(?:no longer|not|currently not) (?:available|here|accessible|valid|active|online|part of)|(?:is |are |seems to be )?(?:missing|invalid|unavailable|gone)\b|(?:has|have|may have|might have|was|were)(?: been)? (?:removed|deleted|moved|withdrawn|taken down|renamed)|does not correspond)",
        r"(?:(?:we'?re |we are )?(?:sorry|oops|apologies)\W*(?:but )?)?(?:we|i) (?:could not|couldn't|cannot|can't|were unable to|was unable to|are unable to|are not able to) (?:find|locate) (?:the|that|this|your|any|what)\b",
        r"nothing (?:was |to )?(?:found|see) (?:here|for|at)",
        rf"there(?:'s| is) (?:nothing|no (?:such )?{_THING}) (?:here|at|with|under|by)",
        r"(?:oops|sorry|uh-? ?oh|whoops)\W*(?:that|this) page\b",
        r"this (?:item|record|document|thesis|article) (?:has been|was) (?:withdrawn|removed|deleted) (?:from|by|at)",
        r"no (?:item|document|article|record|page)s? (?:matched|matching|with (?:this|that) (?:id|identifier))",
        # German, French
        r"(?:die |der |das |diese |dieses |dieser )?(?:(?:von ihnen )?(?:angeforderte|gewünschte|gesuchte|aufgerufene)r? )?(?:seite|datei|adresse|ressource|artikel|publikation|dokument|datensatz|url)(?: (?:wurde|konnte|existiert|ist|steht))?(?: leider)? (?:auf diesem server )?nicht (?:\(mehr\) |mehr )?(?:gefunden|vorhanden|verfügbar|zur)?",
        r"(?:désolé\W+)?(?:cette |la |l'|le |ce |aucune? )?(?:page|article|document|ressource|fichier|notice)(?: (?:demandée?|recherchée?|que vous (?:recherchez|demandez|cherchez|avez demandée?)))? (?:est )?(?:non trouvée?|introuvable|n'existe (?:pas|plus)|n'a (?:pas|pu) (?:été |pu être |être )?trouvée?|n'est (?:pas|plus) (?:disponible|accessible)|a été (?:supprimée?|déplacée?))",
        # Spanish, Portuguese, Italian
        r"(?:lo sentimos\W+)?(?:la |esta |el |este )?(?:p[áa]gina|art[ií]culo|documento|recurso|archivo|contenido|[ií]tem)(?: (?:solicitad[oa]|que (?:busca|buscas|solicita|est[aá]s? buscando)))? (?:no (?:encontrad[oa]|existe|est[áa] disponible|se (?:ha )?(?:encuentra|encontr[óo]|encontrado|pudo encontrar)|(?:ha sido|fue|pudo ser) encontrad[oa])|inexistente|ha sido (?:eliminad|borrad|movid)[oa])",
        r"(?:desculpe\W+)?(?:a |esta |o |este )?(?:p[áa]gina|artigo|documento|recurso|arquivo|conte[úu]do|item)(?: (?:solicitad[oa]|requisitad[oa]|que (?:voc[êe] )?(?:procura|procurava|est[áa] procurando)))? (?:n[ãa]o (?:encontrad[oa]|existe|est[áa] (?:mais )?dispon[ií]vel|foi (?:encontrad[oa]|localizad[oa])|p[ôo]de ser encontrad[oa]|pode ser encontrad[oa])|inexistente|foi removid[oa])",
        r"(?:siamo spiacenti\W+)?(?:la |il |l')?(?:pagina|risorsa|documento|articolo|file)(?: (?:richiest[ao]|cercat[ao]|che (?:cerchi|stai cercando)))? (?:non (?:è stat[ao] trovat[ao]|trovat[ao]|esiste|è (?:più )?disponibile)|inesistente)",
        # Dutch, Scandinavian, Finnish
        r"(?:de |deze )?(?:opgevraagde |gevraagde )?(?:pagina|bestand|artikel|document)(?: die u zoekt)?(?: (?:is|kon|werd|bestaat))? (?:niet (?:gevonden|langer|worden gevonden|meer)|niet)",
        r"sidan (?:kunde inte hittas|hittades inte|finns inte|saknas)",
        r"siden (?:ble |blev |kunne |finnes |findes )?ikke(?: blive| bli)?(?: funnet| fundet)?",
        r"(?:pyydettyä )?sivua ei (?:löydy|löytynyt)",
        # Slavonic, Hungarian, Romanian
        r"nie (?:znaleziono|odnaleziono) (?:strony|dokumentu|zasobu|artykułu)",
        r"(?:strona|dokument|artykuł|plik|zasób)(?:,? który\w* szukasz,?)? nie (?:został[ao]? (?:znalezion|odnalezion)|istnieje)",
        r"(?:požadovaná )?stránka (?:nebyla nalezena|neexistuje|nenalezena|sa nenašla)",
        r"stranica (?:nije|ne postoji)|az oldal nem (?:található|létezik)|pagina nu (?:a fost găsită|există)",
        r"(?:к сожалению,? )?(?:(?:запрашиваемая|запрошенная|данная|указанная|запрашиваемый) (?:вами )?)?(?:страница|статья|документ|файл|ресурс|публикация)(?:,? котор\w+ вы \w+,?)? (?:не (?:найден[аоы]?|существует|доступн[аоы]?)|удал[её]н[аоы]?)",
        r"такой страницы (?:нет|не существует)|сторінк[ау] не (?:знайдено|існує)",
        # Turkish, Indonesian, Vietnamese, Thai
        r"(?:üzgünüz\W+)?(?:aradığınız |istenen |istediğiniz )?(?:sayfa|makale|belge|dosya|içerik)(?:ya|yı)?(?: \w+)? (?:bulunamadı|mevcut değil|yok|bulunamıyor)",
        r"(?:maaf\W+)?(?:halaman|artikel|berkas|dokumen)(?: (?:yang )?(?:anda )?(?:cari|minta|diminta|tersebut|tuju))? tidak (?:dapat )?(?:ditemukan|tersedia|ada)",
        r"(?:không tìm thấy|không tồn tại) (?:trang|bài)|trang (?:này |bạn tìm )?không (?:tồn tại|tìm thấy)",
        r"ไม่พบ(?:หน้า|เอกสาร)",
        # Chinese, Japanese, Korean, Arabic, Persian
        r"(?:抱歉|对不起|很抱歉|非常抱歉)?[,，\s]*(?:您?(?:所?访问|所?请求|查找|要找|要查看|浏览)的?)?(?:该|此|目标)?(?:页面|网页|文章|文件|资源|頁面|網頁|论文|内容|链接)(?:地址)?(?:不存在|未找到|找不到|不見了|已被?删除|已被移除|没有找到|无法找到|走丢)",
        r"找不到(?:页面|该页|頁面|网页|该文章|您)",
        r"(?:申し訳(?:ございません|ありません)[ががｶﾞ、。\s]*)?(?:お探しの|指定された|ご指定の|アクセスしようとした|要求された)?(?:ページ|論文|ファイル|記事|コンテンツ|資料)(?:が|は)(?:見つかりません|存在しません|ありません|削除)",
        r"(?:요청하신 )?(?:페이지|문서|논문)(?:를|을) 찾을 수 없습니다|(?:페이지|문서)(?:가|이) 존재하지 않습니다",
        r"(?:عذر[اً]+\W+)?(?:الصفحة|المقال|المقالة|الملف|المستند)(?: (?:المطلوبة?|التي تبحث عنها))? (?:غير موجودة?|لم يتم العثور)",
        r"لم يتم العثور على|صفحه\s?(?:ی)?(?: مورد نظر| درخواستی)?(?: شما)? (?:یافت|پیدا) نشد",
    ),
)
"""Nothing is here, the page says with a good status."""

FORBIDDEN = Notice(
    whole=_any(
        rf"(?:{_ERROR}(?: code)?[\s:#-]*)?(?:401|403|451|429|1020|1015|1006){_CODE_REST}",
        r".{0,30}\b(?:error|code|status) (?:401|403|429|1020|1015)|.{0,20}\b403 (?:forbidden|error)",
        r"(?:access )?(?:forbidden|unauthori[sz]ed)|not (?:authori[sz]ed|acceptable|allowed)|permission denied",
        r"request (?:rejected|denied|blocked|unsuccessful)|web ?page blocked|site blocked|blocked",
        r"access (?:is |was |has been )?(?:denied|blocked|refused|restricted|limited)|too many requests",
        r"you (?:have been|are|were) (?:blocked|banned|denied)",
        r"(?:der )?(?:zugriff|zugang) (?:wurde |ist )?(?:verweigert|gesperrt|verboten|nicht (?:erlaubt|gestattet))",
        r"keine berechtigung|(?:l')?acc[èe]s (?:est )?(?:refus[ée]|interdit|non autorisé|bloqué)|interdit",
        r"acceso (?:denegado|prohibido|no autorizado|bloqueado)|prohibido",
        r"acesso (?:negado|proibido|não autorizado|bloqueado)|proibido",
        r"accesso (?:negato|vietato|bloccato|non (?:consentito|autorizzato))",
        r"(?:de )?toegang (?:is )?(?:geweigerd|verboden)|åtkomst nekad|adgang (?:nektet|nægtet)",
        r"pääsy (?:kielletty|estetty)|dostęp (?:zabroniony|zablokowany)|(?:brak|odmowa) dostępu",
        r"přístup (?:odepřen|zakázán)|pristup (?:odbijen|zabranjen)|hozzáférés megtagadva",
        r"acces (?:interzis|respins)|(?:в )?доступ(?:е)? (?:запрещ[её]н|закрыт|ограничен|заблокирован|отказано)",
        r"запрещено|доступ заборонено",
        r"erişim (?:engellendi|reddedildi|yasak)|yasak|akses (?:ditolak|diblokir|dilarang|terlarang)",
        r"truy cập bị (?:từ chối|chặn)|(?:访问|拒绝|禁止)(?:被拒绝|被禁止|被阻断|访问|受限|已被拦截)",
        r"アクセス(?:が|は)?(?:拒否|禁止|制限)(?:されました|されています|されて)?|접근(?:이)? (?:거부|차단|금지)(?:되었습니다)?",
        r"(?:رفض|حظر|منع) (?:الوصول|الدخول)|(?:الوصول )?(?:مرفوض|ممنوع)|دسترسی (?:غیر ?مجاز|ممنوع|مسدود)",
    ),
    opening=_any(
        rf"(?:{_ERROR}\s*)?403(?=:)",
        r"(?:sorry\W+)?(?:your |the )?access (?:to .{1,60} )?(?:is |was |has been )?(?:currently |temporarily )?(?:denied|blocked|refused|forbidden|suspended|restricted|limited|not allowed|not permitted)",
        r"(?:sorry\W+)?(?:you|your (?:ip|ip address|request|network|access|browser|session|computer))\b.{0,30} (?:have been|has been|are|were|was|is) (?:temporarily |currently |permanently )?(?:blocked|denied|banned|forbidden|rejected|suspended|restricted|blacklisted|not (?:authori[sz]ed|permitted|allowed))",
        r"you (?:do not|don't) have (?:permission|authori[sz]ation|the right) (?:to|for)",
        r"(?:the )?requested? (?:url )?(?:was|has been|could not be) (?:rejected|blocked|satisfied)",
        r"request unsuccessful",
        r"(?:excessive|suspicious|abnormal|systematic) (?:use|usage|downloads?|downloading|activity)",
        r"this (?:page|site|request) (?:is|has been|was) blocked|forbidden\W+you",
        r"ihr(?:e|er)? (?:ip|zugriff|anfrage|zugang)\b.{0,30}(?:gesperrt|blockiert|verweigert|abgelehnt)",
        r"sie (?:haben keine|sind nicht) (?:berechtig|zugriff)",
        r"der zugriff (?:auf|von) .{1,60} (?:verweigert|gesperrt|blockiert)",
        r"vous n'(?:avez|êtes) pas (?:les? (?:droits?|autorisation)|l'autorisation|autorisé)",
        r"votre (?:adresse ip|accès|requête|ip) .{0,30}(?:bloqué|refusé|rejeté)",
        r"(?:no tiene|usted no tiene) (?:permiso|autorizaci)",
        r"su (?:direcci[oó]n ip|ip|solicitud|acceso) .{0,30}(?:bloquead|denegad|rechazad)",
        r"(?:você )?não (?:tem|possui) permiss|seu (?:ip|endereço ip|acesso) .{0,30}(?:bloquead|negad)",
        r"non (?:hai|disponi|si dispone)\b.{0,20}(?:autorizzazion|permess)",
        r"il tuo (?:indirizzo )?ip .{0,20}bloccato|(?:acceso|acesso|accesso) (?:denegado|negado|negato)",
        r"(?:u heeft|je hebt) geen toe(?:gang|stemming)|nie masz (?:uprawnień|dostępu)",
        r"nemáte (?:oprávnění|přístup)|(?:у вас )?нет (?:прав|доступа|разрешения)",
        r"ваш(?:а|е)? (?:ip|адрес|запрос|доступ).{0,30}(?:заблокирован|отклон|ограничен)",
        r"доступ (?:к|с) .{1,50} (?:запрещ|закрыт|ограничен|заблокирован)",
        r"erişim (?:izniniz|yetkiniz) (?:yok|bulunmamaktadır)|ip adresiniz .{0,20}engellen",
        r"anda tidak (?:memiliki|diizinkan|mempunyai)|alamat ip anda .{0,20}diblokir",
        r"您?(?:的)?(?:访问|请求|ip|IP地址).{0,12}(?:拦截|阻断|限制|拒绝|封禁|异常)|您没有权限|(?:没有|无)访问权限|このページ(?:への|は)アクセス",
        r"アクセス(?:権限|が許可)|접근 권한이 없습니다|(?:تم )?(?:رفض|حظر|منع) (?:الوصول|الدخول|عنوان)|ليس لديك (?:إذن|صلاحية)",
        r"شما (?:اجازه|مجوز)",
    ),
)
"""Access is refused, the page says with a good status."""

SCRIPT_TEXT = _any(
    r"(?:enable|enabled|requires?|required|turn on|activate|needs?|without|allow|support|use)\b.{0,40}\bjava ?script",
    r"java ?script\b.{0,60}\b(?:enabled?|disabled|required|needed|turned off|switched off|to (?:run|work|view|function|load)|not (?:supported|available|enabled))",
    r"java ?script.{0,40}(?:aktivier|benötigt|erforderlich|deaktiviert|ausgeschaltet)",
    r"(?:aktivieren|einschalten|benötigt|ohne).{0,40}java ?script",
    r"(?:activ|désactiv|nécessite|requiert|autoris)\w{0,15}.{0,40}java ?script",
    r"java ?script.{0,40}(?:activé|désactivé|nécessaire|requis)",
    r"(?:activ|habilit|requiere|necesita|necessita|precisa|requer|ativ|permit)\w{0,15}.{0,40}java ?script",
    r"java ?script.{0,40}(?:activado|habilitado|desactivado|deshabilitado|ativado|desativado|desabilitado|necesario|necessário)",
    r"(?:abilit|attiv|richied)\w{0,15}.{0,40}java ?script",
    r"java ?script.{0,30}(?:abilitato|disabilitato|inschakelen|vereist|ingeschakeld|uitgeschakeld|aktiverat|aktiveret|włącz|wyłączon|wymag\w+|povol\w+|engedélyez\w*)",
    r"(?:schakel|aktivera|aktiver|włącz|wymaga|povolte|zapněte|engedélyez)\w{0,15}.{0,40}java ?script",
    r"(?:включ|отключ|требу|необходим|поддерж|активир|увімкн)\w{0,15}.{0,40}java ?script",
    r"java ?script.{0,40}(?:включ|отключ|требу|необходим|не поддерж|вимкнен)",
    r"java ?script.{0,30}(?:etkin|gerek|kapalı|devre dışı|diaktifkan|diperlukan|dinonaktifkan)",
    r"(?:aktifkan|mengaktifkan|membutuhkan|memerlukan|bật).{0,30}java ?script",
    r"(?:启用|开启|打开|允许|啟用|開啟|需要|禁用|支持).{0,10}java ?script",
    r"java ?script.{0,12}(?:启用|禁用|关闭|支持|を有効|が無効|を使用|をオン|が必要|を 사용|활성화|사용)",
    r"(?:تفعيل|تمكين|يتطلب).{0,30}(?:java ?script|جافا ?سكربت)",
)
"""Readers without scripts are told to have some."""
