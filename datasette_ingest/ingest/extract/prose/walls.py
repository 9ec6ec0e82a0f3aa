"""Pages that stand in the way: login, captcha, cookie refusal, "not here", "needs scripts" — told from articles
that merely mention such things.

Every test asks for the thing itself (a password field, a captcha's element, a title that says nothing else) on a
page with too little text to be an article.
"""

from __future__ import annotations

import re

from ..errors import BlockedCaptcha, BlockedCookie, BlockedForbidden, BlockedWall, IngestError, JsRequired, Soft404
from ..policy import is_wall
from ..urls import mask
from .page import PageText

WALL_WORDS = 350
"""More words of its own than this, and a page is not a wall."""
NOTICE_WORDS = 200
"""Longest notice ("page not found", "access denied") that takes the place of a page."""
EMPTY_WORDS = 40
"""A page that only a script fills shows fewer words than this."""

_LOGIN = re.compile(
    r"\b(?:log[\s-]?in|log[\s-]?on|sign[\s-]?in|sign[\s-]?on|single sign|institutional (?:login|access)|shibboleth"
    r"|openathens|anmelden|anmeldung|einloggen|connexion|se connecter|identifiez-vous|iniciar sesi[oó]n|acceder"
    r"|entrar|accedi|zaloguj|войти|вход|登录|登入|ログイン)\b",
    re.IGNORECASE,
)
_CHALLENGE_TITLE = re.compile(
    r"just a moment|attention required|are you (?:a )?(?:human|robot)|security check|bot (?:check|verification)"
    r"|human verification|verify (?:that )?you(?:'re| are)|captcha|client challenge|ddos",
    re.IGNORECASE,
)
_CHALLENGE_TEXT = re.compile(
    r"verify (?:that )?you are (?:a )?human|not a robot|checking your browser|complete the (?:security check|captcha)"
    r"|type the characters|enter the (?:characters|code|text) (?:shown|you see|in the image|below)"
    r"|unusual traffic from your",
)
_COOKIE_TEXT = re.compile(
    r"cookies (?:are|must be|have to be|need to be|seem to be) (?:disabled|enabled|turned (?:on|off)|blocked|accepted|allowed)"
    r"|(?:enable|accept|allow|turn on) (?:session )?cookies (?:in|to|and|for|on)\b|browser (?:does not|doesn't|must) accept cookies"
    r"|requires? (?:that )?(?:your browser (?:to )?accepts? )?cookies|cookies aktivieren|activer les cookies|activar las cookies"
    r"|cookie absent|without cookies",
)
_MISSING = re.compile(
    r"(?:http )?(?:error|fehler|erreur|erro)?[\s:#-]*404\b.{0,60}|.{0,40}\b404\b(?: -? ?(?:error|not found).{0,30})?"
    r"|(?:sorry,? )?(?:oops!? )?(?:the |this |that |your )?(?:requested )?(?:page|article|document|file|item|resource|url|content|doi|paper|record)"
    r"(?: (?:you (?:requested|are looking for|were looking for)|requested))?"
    r" (?:(?:was |could |can)?(?:not|n't) (?:be )?(?:found|exist|available|located)|(?:does not|doesn't|no longer) exists?"
    r"|(?:is )?no longer available|is not available|is missing|has been (?:removed|deleted|moved)|not found).{0,60}"
    r"|not found|doi not found|nothing (?:was )?found|seite nicht gefunden.{0,40}|page (?:non trouv[ée]e|introuvable).{0,40}"
    r"|p[áa]gina no encontrada.{0,40}|p[áa]gina n[ãa]o encontrada.{0,40}|pagina non trovata.{0,40}|страница не найдена.{0,40}"
    r"|页面不存在.{0,40}|ページが見つかりません.{0,40}",
    re.IGNORECASE,
)
_FORBIDDEN = re.compile(
    r"(?:http )?(?:error )?[\s:-]*403\b.{0,60}|.{0,20}\b403 forbidden.{0,30}|forbidden|access (?:is |was |has been )?(?:denied|blocked|refused).{0,40}"
    r"|(?:request|you (?:have been|are|were)) (?:blocked|denied|forbidden).{0,40}|zugriff verweigert.{0,40}|acc[èe]s (?:refus[ée]|interdit).{0,40}"
    r"|acceso denegado.{0,40}",
    re.IGNORECASE,
)
_SCRIPT_TEXT = re.compile(
    r"(?:enable|requires?|turn on|activate|needs?|without|aktivieren sie|activer|habilit\w+|activ\w+)\b.{0,40}\bjavascript"
    r"|javascript\b.{0,60}\b(?:enabled?|disabled|required|turned off|to run|aktiviert|activado)",
)
# "Page title | Site name", "Site name - Page title": each part is looked at by itself.
_TITLE_PARTS = re.compile(r"\s+[|\-–—·:»]\s+|\s*[|»]\s*")


def wall(url: str, text: PageText) -> IngestError | None:
    """What stands at a page instead of what was wanted, or None if it is a page in its own right."""
    where = mask(url)
    if text.has_citation and text.words > EMPTY_WORDS:
        return None
    if _is_captcha(text):
        return BlockedCaptcha(f"a captcha stands at {where}")
    if _is_login(url, text):
        return BlockedWall(f"a login page stands at {where}")
    if text.words <= NOTICE_WORDS:
        if _titled(text, _MISSING):
            return Soft404(f"the page at {where} says that nothing is there: {_said(text)!r}")
        if _titled(text, _FORBIDDEN):
            return BlockedForbidden(f"the page at {where} refuses access: {_said(text)!r}")
        if _COOKIE_TEXT.search(text.start):
            return BlockedCookie(f"the page at {where} insists on cookies")
    if _needs_scripts(text):
        return JsRequired(f"the page at {where} is empty without scripts")
    return None


def _is_captcha(text: PageText) -> bool:
    if text.words > NOTICE_WORDS:
        return False
    said = bool(_CHALLENGE_TEXT.search(text.start) or _CHALLENGE_TITLE.search(text.title))
    # A login form may carry a captcha; it is a login all the same.
    return said or (text.has_captcha and not text.has_password)


def _is_login(url: str, text: PageText) -> bool:
    if text.words > WALL_WORDS:
        return False
    if is_wall(url):
        return True
    named = bool(_LOGIN.search(text.title) or any(_LOGIN.search(heading) for heading in text.headings))
    return text.has_password and (named or text.words <= NOTICE_WORDS)


def _titled(text: PageText, pattern: re.Pattern[str]) -> bool:
    """Whether the title or the first heading says this and nothing else."""
    names = [text.first_heading, *_TITLE_PARTS.split(text.title), text.title]
    if not text.title and not text.first_heading:
        names.append(text.start[:100])
    return any(pattern.fullmatch(name.strip(" .!")) for name in names if name)


def _said(text: PageText) -> str:
    return (text.first_heading or text.title or text.start)[:120]


def _needs_scripts(text: PageText) -> bool:
    if text.all_words > EMPTY_WORDS or not text.scripts:
        return False
    return bool(_SCRIPT_TEXT.search(text.noscript) or _SCRIPT_TEXT.search(text.start)) or text.all_words == 0
