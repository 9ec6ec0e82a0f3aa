"""Pages in the way, and articles that merely speak of such things."""

from __future__ import annotations

import pytest

from datasette_ingest.ingest.page.interstitials import interstitial
from datasette_ingest.ingest.page.read import read_page

PROSE = "<p>" + "Lupins grow on poor soils and feed people and cattle alike. " * 60 + "</p>"
SOME = "<p>" + "Lupins grow on poor soils and feed people. " * 15 + "</p>"


def verdict(title: str, body: str, *, url: str = "http://h/a/b", head: str = "") -> str | None:
    data = f"<html><head><title>{title}</title>{head}</head><body>{body}</body></html>".encode()
    page = read_page(data, url, "", target="pdf")
    assert page.text is not None
    found = interstitial(url, page.text)
    return found.status if found else None


PASSWORD = '<form action="/auth">User <input name="u"> Password <input type="password" name="p"></form>'
BUTTON = '<button>Submit</button><input type="password">'

LOGINS = [
    ("Sign in", PASSWORD),
    ("Log in to your account | Publisher", PASSWORD),
    ("Publisher", "<h1>Institutional login</h1>" + PASSWORD),
    ("Anmeldung", "<h2>Anmelden</h2>" + PASSWORD),
    ("Connexion", PASSWORD),
    ("Iniciar sesión", PASSWORD),
    ("Members only", PASSWORD + "<p>Forgotten your password?</p>"),
    ("Access", "<p>Please use your credentials.</p>" + BUTTON),
    ("OpenAthens", "<h1>Sign in with OpenAthens</h1>" + PASSWORD),
    ("Авторизация", "<h1>Вход</h1>" + PASSWORD),
]
CAPTCHAS = [
    ("Just a moment...", '<div class="cf-turnstile"></div>'),
    ("Attention Required! | Cloudflare", "<p>Please complete the security check to access</p>"),
    ("Security check", '<form><div class="g-recaptcha" data-sitekey="x"></div></form>'),
    ("Robot?", "<p>Please confirm that you are not a robot.</p><div id='h-captcha'></div>"),
    ("Verification", '<img src="/captcha.png"><p>Enter the characters shown</p>'),
    ("Loading", '<form id="challenge-form"></form><p>Checking your browser before accessing</p>'),
    ("Are you a human?", "<p>One step.</p>"),
    ("px", '<div id="px-captcha"></div><p>Press and hold</p>'),
    ("Access", '<iframe src="https://geo.captcha-delivery.com/captcha/?x"></iframe>'),
    ("Client Challenge", "<p>A required part of this site could not load.</p>"),
]
COOKIES = [
    ("Cookies required", "<p>Cookies are disabled in your browser. Enable cookies to go on.</p>"),
    ("Publisher", "<p>This site requires cookies. Please enable cookies in your browser settings.</p>"),
    ("Cookie absent", "<h1>Cookie absent</h1><p>Your browser does not accept cookies.</p>"),
    ("Error", "<p>Your session ended because cookies must be enabled.</p>"),
    ("Hinweis", "<p>Bitte Cookies aktivieren.</p>"),
    ("Accès", "<p>Vous devez activer les cookies.</p>"),
    ("Atención", "<p>Debe activar las cookies.</p>"),
    ("x", "<p>It is not possible to use the service without cookies.</p>"),
    ("x", "<p>You have to accept cookies to continue; turn on cookies and reload.</p>"),
    ("Journal", "<p>We noticed that cookies are blocked.</p>"),
]
MISSING = [
    ("404 Not Found", "<h1>Not Found</h1>"),
    ("Page not found | Publisher", "<p>Try the search.</p>"),
    ("Publisher", "<h1>Sorry, the page you requested could not be found.</h1>"),
    ("Error 404", "<p>Back to the start page.</p>"),
    ("DOI Not Found", "<h1>DOI Not Found</h1>"),
    ("Repository", "<h1>The requested document does not exist</h1>"),
    ("Repository", "<h1>This item is no longer available</h1>"),
    ("Seite nicht gefunden", "<p>Hoppla.</p>"),
    ("Page introuvable", "<p>Erreur.</p>"),
    ("Página no encontrada", "<p>Lo sentimos.</p>"),
]
FORBIDDEN = [
    ("403 Forbidden", "<center><h1>403 Forbidden</h1></center><hr>nginx"),
    ("Access Denied", "<p>You do not have permission.</p>"),
    ("Error 403", "<p>Reference #18.2</p>"),
    ("Publisher", "<h1>Access denied</h1>"),
    ("Request blocked", "<p>Contact us.</p>"),
]
SCRIPTS = [
    ("App", '<div id="root"></div><script src="a.js"></script><noscript>You need to enable JavaScript to run this app.</noscript>'),
    ("Repository", "<ds-app></ds-app><script></script>"),
    ("x", "<script></script><p>This site requires JavaScript.</p>"),
    ("x", "<script></script><noscript>JavaScript is disabled in your browser</noscript>"),
    ("x", "<script></script><noscript>Bitte aktivieren Sie JavaScript</noscript>"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("title", "body", "status"),
    [
        *((*page, "blocked-wall") for page in LOGINS),
        *((*page, "blocked-captcha") for page in CAPTCHAS),
        *((*page, "blocked-cookie") for page in COOKIES),
        *((*page, "soft-404") for page in MISSING),
        *((*page, "blocked-forbidden") for page in FORBIDDEN),
        *((*page, "js-required") for page in SCRIPTS),
    ],
)
def test_an_interstitial_is_called_by_its_name(title: str, body: str, status: str) -> None:
    assert verdict(title, body) == status


@pytest.mark.parametrize(
    ("title", "body"),
    [
        ("Why users abandon login forms", "<h1>Sign in, please</h1>" + PROSE + PASSWORD),
        ("Captcha solving by neural networks", "<h1>Are you a human?</h1>" + PROSE),
        ("An article", PROSE + '<form><div class="g-recaptcha"></div>Comment <textarea></textarea></form>'),
        ("Cookies and privacy", "<p>Cookies are disabled by a third of users.</p>" + PROSE),
        ("Link rot", "<h1>404: the decay of references</h1>" + PROSE),
        ("Page not found: a history of the web", "<p>How often is a page not found?</p>" + PROSE),
        ("403 patients with lupus", "<h1>403 patients</h1>" + PROSE),
        ("Access denied? Barriers to care", SOME + PROSE),
        ("JavaScript engines", "<script></script><p>You must enable JavaScript to see figure 1.</p>" + SOME),
        ("An article", "<noscript>Please enable JavaScript</noscript><script></script>" + SOME),
        ("A landing page", SOME + "<div class='cookie-banner'>We use cookies. Accept all.</div>"),
        ("Not found in nature: synthetic alkaloids", SOME),
    ],
)
def test_a_page_that_merely_mentions_such_things_is_none(title: str, body: str) -> None:
    assert verdict(title, body) is None


def test_a_landing_page_with_a_login_form_is_a_landing_page() -> None:
    head = '<meta name="citation_title" content="On lupins">'
    assert verdict("On lupins", SOME + PASSWORD, head=head) is None


def test_a_short_page_at_a_login_address_is_a_login() -> None:
    assert (
        verdict("Publisher", "<p>Choose your institution.</p>", url="http://h/Shibboleth.sso/Login") == "blocked-wall"
    )
    assert verdict("Publisher", PROSE, url="http://h/login") is None
