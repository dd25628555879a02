"""Where a redirect leads, and what goes along.

Each hop is judged as the first one was. To another origin go only headers that say nothing about
the caller: a key may stand in `Authorization`, and just as well in `X-Api-Key`.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urldefrag, urljoin

from podium.effects.http.egress import Egress
from podium.effects.http.errors import Refused
from podium.effects.http.messages import Request, Response
from podium.effects.http.url import Url
from podium.kernel.errors import Invalid

KEEP_METHOD = frozenset({307, 308})
TO_GET = frozenset({301, 302, 303})
HARMLESS = frozenset({"accept", "accept-language", "content-type", "user-agent"})


def next_request(
    request: Request, url: Url, answer: Response, egress: Egress
) -> tuple[Request, Url] | None:
    """The request that follows `answer`; None if it is no redirect. Refused if it leads astray."""
    location = answer.header("location")
    if answer.status not in KEEP_METHOD | TO_GET or not location:
        return None
    following = _checked(url, location, egress)
    if url.scheme == "https" and following.scheme == "http":
        raise _refused(url, "from https to http")
    if answer.status in TO_GET and request.method != "HEAD":
        request = replace(
            request,
            method="GET",
            body=b"",
            headers=tuple(h for h in request.headers if not h[0].lower().startswith("content-")),
        )
    if following.origin != url.origin:
        kept = tuple(h for h in request.headers if h[0].lower() in HARMLESS)
        request = replace(request, headers=kept)
    return replace(request, url=str(following)), following


def _checked(url: Url, location: str, egress: Egress) -> Url:
    try:
        # A fragment is legal in a Location and is never sent.
        return egress.check(urldefrag(urljoin(str(url), location)).url, "the redirect")
    except (Invalid, ValueError):
        raise _refused(url, "to where we do not call") from None


def _refused(url: Url, where: str) -> Refused:
    return Refused(f"{url.origin} redirects {where}", destination=url.origin, reason="redirect")
