"""Which URLs and network addresses may be requested, and the error for those that may not."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from .errors import BlockedCookie, ForbiddenAddress, IngestError, SkipUrlBlocklist, SkipWall
from .settings import Network, parse_network
from .urls import mask, split

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

SITES_WITHOUT_FULL_TEXT = (
    "facebook.com",
    "instagram.com",
    "linkedin.com",
    "twitter.com",
    "x.com",
    "youtube.com",
    "amazon.com",
    "worldcat.org",
    "scholar.google.com",
    "books.google.com",
)
"""Hosts that link to works and never serve them. Their subdomains are included."""

# Whole path segments: /login-rates-in-schools.pdf is a paper.
_WALL_PATH = re.compile(
    r"/(?:log[-_]?in|sign[-_]?in|sign[-_]?on|logon|sso|saml2?|shibboleth(?:\.sso)?|idp|adfs|openathens|wayf"
    r"|captcha|showcaptcha|account/login|users/sign_in|user/login|password-login|institutional[-_]?login|cas/login"
    r"|action/(?:showlogin|ssostart|dologin)|openid-connect/auth|(?:oauth2?|connect)/(?:v[\d.]+/)?authorize)"
    r"(?:\.(?:php|aspx?|jsp|do|html?|action|cgi))?(?=[/?;#]|$)",
    re.IGNORECASE,
)
_WALL_HOST = re.compile(r"^(?:login|signin|sso|idp|auth|shibboleth|openathens|wayf)\d*\.", re.IGNORECASE)
_COOKIE_MARK = re.compile(
    r"/cookieabsent(?=[/?#]|$)|[?&]cookieset=1(?=[&#]|$)|error=cookies_not_supported", re.IGNORECASE
)

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.ip_network("64:ff9b:1::/48")
# Special-purpose blocks of the IANA registries that some Python versions still call global.
_NOT_PUBLIC: tuple[Network, ...] = tuple(
    ipaddress.ip_network(block)
    for block in ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20", "5f00::/16", "100:0:0:1::/64")
)
_IPV4_COMPATIBLE = ipaddress.ip_network("::/96")


@dataclass(frozen=True)
class Policy:
    """What this crawler may request. `allow_networks` as in CrawlSettings; ValueError if one is malformed."""

    blocklist: tuple[str, ...] = ()
    allow_networks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _ = self._allowed

    def refuse_url(self, href: str) -> IngestError | None:
        """Why this URL may not be requested, whatever its address; None if it may."""
        site = _listed_site(split(href).host)
        refusal = self.refuse_listed(href) or (None if site is None else _on_the_blocklist(href, site))
        if refusal is not None:
            return refusal
        if cookie_refusal(href):
            return BlockedCookie(f"{mask(href)} is the page for browsers that refuse cookies")
        return None

    def refuse_listed(self, href: str) -> IngestError | None:
        """Why this URL may not be requested, if the user's own blocklist says so; None if it does not."""
        entry = next((entry for entry in self.blocklist if entry and entry in href), None)
        return None if entry is None else _on_the_blocklist(href, entry)

    def refuse_link(self, href: str) -> IngestError | None:
        """As `refuse_url`, for a link of a page. Links to login pages are refused, too."""
        refusal = self.refuse_url(href)
        if refusal is None and is_wall(href):
            return SkipWall(f"{mask(href)} is a login or captcha page")
        return refusal

    def refuse_host(self, href: str) -> ForbiddenAddress | None:
        """Why a URL may not be named to others: its host is an address that may not be connected to, or this machine.
        None for any other name, whatever its address."""
        parts = split(href)
        is_here = parts.host == "localhost" or parts.host.endswith(".localhost")
        try:
            return self.refuse_address("127.0.0.1" if is_here else parts.host, parts.port, href=href)
        except ValueError:
            return None

    def refuse_address(self, address: str, port: int, *, href: str) -> ForbiddenAddress | None:
        """Why an address of `href` (text without brackets) may not be connected to; None if it may."""
        ip = ipaddress.ip_address(address.partition("%")[0])
        if any(self._permits(form, port) for form in (ip, embedded_ipv4(ip)) if form is not None):
            return None
        if is_public(ip):
            return None
        return ForbiddenAddress(
            f"{mask(href)} leads to {ip}, which is not a public address (allow_networks permits one)"
        )

    def _permits(self, ip: Address, port: int) -> bool:
        return any(
            ip.version == network.version and ip in network and wanted in (None, port)
            for network, wanted in self._allowed
        )

    @cached_property
    def _allowed(self) -> tuple[tuple[Network, int | None], ...]:
        return tuple(parse_network(text) for text in self.allow_networks)


def _on_the_blocklist(href: str, entry: str) -> IngestError:
    return SkipUrlBlocklist(f"{mask(href)} is on the blocklist ({entry})")


@lru_cache(maxsize=4096)
def _listed_site(host: str) -> str | None:
    return next((site for site in SITES_WITHOUT_FULL_TEXT if host == site or host.endswith("." + site)), None)


def is_public(ip: Address) -> bool:
    """Whether an address, and the IPv4 address that it may contain, is on the public internet.

    `is_global` is not enough: it is true of multicast, and of IPv6 addresses that a translator maps to private IPv4
    addresses (RFC 4291 mapped, RFC 3056 6to4, RFC 6052 NAT64, RFC 4380 Teredo).
    """
    inner = embedded_ipv4(ip)
    if inner is not None:
        return is_public(inner)
    if ip.version == 6 and (ip in _NAT64_LOCAL or ip.is_site_local):
        return False
    if any(ip.version == block.version and ip in block for block in _NOT_PUBLIC):
        return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved and not ip.is_unspecified


def embedded_ipv4(ip: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address maps or tunnels to, or None."""
    if ip.version == 4:
        return None
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    if ip in _NAT64 or (ip in _IPV4_COMPATIBLE and int(ip) > 1):
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return None


def is_wall(href: str) -> bool:
    """Whether a URL looks like that of a login, single-sign-on or captcha page."""
    parts = split(href)
    return bool(_WALL_PATH.search(parts.target.partition("?")[0]) or _WALL_HOST.match(parts.host))


def cookie_refusal(href: str) -> bool:
    """Whether a URL is that of a page to which sites redirect browsers without cookies."""
    return "cookie" in href.lower() and _COOKIE_MARK.search(href) is not None
