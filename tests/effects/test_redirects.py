"""A redirect is somebody else's URL: off for callbacks, checked for jobs (row N4)."""

from __future__ import annotations

import pytest

from podium.effects.http import BadAnswer, Refused, Request
from tests.effects.strangers import answers, caller, egress_to, listening

NAMES = {"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]}
SECRETS = (
    ("Authorization", "Bearer hunter2"),
    ("Cookie", "session=hunter2"),
    ("X-Api-Key", "hunter2"),
    ("Accept", "text/plain"),
)


async def test_n4_a_callback_takes_a_redirect_for_an_answer() -> None:
    async with listening(answers(302, headers=[("Location", "/elsewhere")])) as stranger:
        async with caller(egress_to(stranger)) as client:
            response = await client.send(Request("POST", stranger.url(), body=b"x"))
    assert response.status == 302
    assert len(stranger.heads) == 1


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://2130706433/",
        "//127.1/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "http://user:p@b.example/",
        "http://b.example:6379/",
        "http://inner.example/",
        "http://[::1",
        "http://b.example\\@a.example/",
        "http://b.examplé/",
    ],
    ids=lambda location: f"N4 {location}",
)
async def test_n4_each_hop_is_checked(location: str) -> None:
    astray = answers(302, headers=[("Location", location)])
    names = {"a.example": [["127.0.0.2"]], "inner.example": [["10.0.0.1"]]}
    async with listening(astray, host="127.0.0.2") as outside:
        async with listening(answers(), port=outside.port) as inside:
            egress = egress_to(outside, networks=["127.0.0.2/32"])
            async with caller(egress, names=names) as client:
                url = outside.url(host="a.example")
                with pytest.raises(Refused):
                    await client.send(Request("GET", url, redirects_max=3))
    assert len(outside.heads) == 1
    assert inside.connections == 0


async def test_n4_three_hops_are_followed_and_thirty_are_not() -> None:
    async with listening(answers(302, headers=[("Location", "/again")])) as stranger:
        async with caller(egress_to(stranger)) as client:
            with pytest.raises(BadAnswer) as failed:
                await client.send(Request("GET", stranger.url(), redirects_max=3))
    assert failed.value.reason == "redirects"
    assert len(stranger.heads) == 4

    hops = [answers(302, headers=[("Location", f"/{n}#part")]) for n in (1, 2, 3)]
    async with listening(*hops, answers(200, b"there")) as stranger:
        async with caller(egress_to(stranger)) as client:
            response = await client.send(Request("GET", stranger.url(), redirects_max=3))
    assert (response.status, response.body) == (200, b"there")
    assert response.url == stranger.url("/3")


async def test_n4_what_speaks_for_the_caller_stays_with_its_origin() -> None:
    async with listening(answers(200)) as other:
        to_other = answers(307, headers=[("Location", other.url("/x", host="b.example"))])
        to_self = answers(307, headers=[("Location", "/second")])
        async with listening(to_self, to_other) as first:
            async with caller(egress_to(first, other), names=NAMES) as client:
                await client.send(
                    Request("POST", first.url(host="a.example"), SECRETS, b"body", redirects_max=3)
                )
    assert all(head.count(b"hunter2") == 3 for head in first.heads), "its own origin gets them"
    (head,) = other.heads
    assert b"hunter2" not in head
    assert b"\r\nAccept: text/plain\r\n" in head
    assert other.bodies == [b"body"], "307 keeps method and body"


@pytest.mark.parametrize(
    ("status", "method", "after", "body"),
    [
        (301, "POST", "GET", b""),
        (302, "POST", "GET", b""),
        (303, "PUT", "GET", b""),
        (303, "HEAD", "HEAD", b""),
        (307, "POST", "POST", b"x"),
        (308, "PATCH", "PATCH", b"x"),
    ],
)
async def test_the_method_changes_as_the_status_says(
    status: int, method: str, after: str, body: bytes
) -> None:
    sent = b"" if method == "HEAD" else b"x"
    async with listening(
        answers(status, headers=[("Location", "/next")]), answers(200)
    ) as stranger:
        async with caller(egress_to(stranger)) as client:
            headers = (("Content-Type", "text/plain"),)
            await client.send(Request(method, stranger.url(), headers, sent, redirects_max=1))
    assert stranger.heads[1].startswith(f"{after} /next ".encode())
    assert stranger.bodies[1] == body
    assert (b"Content-Type" in stranger.heads[1]) == (after == method)


async def test_a_redirect_without_a_location_is_an_answer() -> None:
    async with listening(answers(302)) as stranger:
        async with caller(egress_to(stranger)) as client:
            response = await client.send(Request("GET", stranger.url(), redirects_max=3))
    assert response.status == 302
