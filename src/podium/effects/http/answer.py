"""Reading an answer, no more of it than was asked for."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

import httpcore

from podium.effects.http.errors import AnswerTooLarge, BadAnswer
from podium.effects.http.messages import HEADER_BYTES_MAX, HEADERS_MAX, Header, Response
from podium.effects.http.url import Url

GZIP = 16 + zlib.MAX_WBITS


async def read(answer: httpcore.Response, url: Url, bytes_max: int) -> Response:
    """The whole answer, or AnswerTooLarge or BadAnswer with its status in the details."""
    headers = _headers(answer, url)
    if answer.status < 200:
        raise BadAnswer(
            f"{url.origin} changed the protocol",
            destination=url.origin,
            reason="protocol",
            status=answer.status,
        )
    body = await _body(answer, headers, url, bytes_max)
    version = answer.extensions.get("http_version", b"HTTP/1.1").decode("latin-1")
    return Response(answer.status, headers, body, str(url), version)


def _headers(answer: httpcore.Response, url: Url) -> tuple[Header, ...]:
    size = sum(len(name) + len(value) for name, value in answer.headers)
    if len(answer.headers) > HEADERS_MAX or size > HEADER_BYTES_MAX:
        raise AnswerTooLarge(
            f"{url.origin} answers with {len(answer.headers)} headers of {size} bytes; the most is "
            f"{HEADERS_MAX} of {HEADER_BYTES_MAX}",
            destination=url.origin,
            reason="headers",
            status=answer.status,
        )
    return tuple((n.decode("latin-1"), v.decode("latin-1")) for n, v in answer.headers)


async def _body(
    answer: httpcore.Response, headers: tuple[Header, ...], url: Url, bytes_max: int
) -> bytes:
    found = [v.strip().lower() for n, v in headers if n.lower() == "content-encoding"]
    encodings = [encoding for encoding in found if encoding not in ("", "identity")]
    chunks = answer.aiter_stream()
    if encodings and encodings not in (["gzip"], ["x-gzip"]):
        raise BadAnswer(
            f"{url.origin} answers in an encoding that was not asked for",
            destination=url.origin,
            reason="encoding",
            status=answer.status,
        )
    if encodings:
        chunks = _unzipped(chunks, answer.status, url, bytes_max)
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > bytes_max:
            raise AnswerTooLarge(
                f"{url.origin} answers with more than {bytes_max} bytes",
                destination=url.origin,
                reason="body",
                status=answer.status,
            )
    return bytes(body)


async def _unzipped(
    chunks: AsyncIterator[bytes], status: int, url: Url, bytes_max: int
) -> AsyncIterator[bytes]:
    """Some servers zip though they are asked not to. Of a bomb, one byte too many comes out."""
    unzip = zlib.decompressobj(GZIP)
    async for chunk in chunks:
        try:
            yield unzip.decompress(chunk, bytes_max + 1)
        except zlib.error:
            raise BadAnswer(
                f"{url.origin} answers with broken gzip",
                destination=url.origin,
                reason="encoding",
                status=status,
            ) from None
