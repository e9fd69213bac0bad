"""How an answer goes out: at once, with delays, cut short, or without an end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from atp.models.scripted.dialects.anatomy import Anatomy, fault_not_expressible
from atp.models.scripted.dialects.dialect import Rendered
from atp.models.scripted.dialects.events import event_data, with_data
from atp.models.scripted.faults import Fault

_LOOK = 0.05
"""Seconds between two looks at whether the client is still there."""


async def deliver(
    request: web.BaseRequest, answer: Rendered, record: Callable[[], Awaitable[None]]
) -> web.StreamResponse:
    """Send an answer. Its record is on the disk before its last byte goes out."""
    headers = {"content-type": answer.content_type, **answer.headers}
    if len(answer.chunks) == 1:
        await record()
        return web.Response(status=answer.status, body=answer.chunks[0], headers=headers)
    response = web.StreamResponse(status=answer.status, headers=headers)
    await response.prepare(request)
    await response.write(b"".join(answer.chunks[:-1]))
    await record()
    await response.write(answer.chunks[-1])
    await response.write_eof()
    return response


async def deliver_with_fault(
    request: web.BaseRequest,
    answer: Rendered,
    fault: Fault,
    anatomy: Anatomy,
    record: Callable[[], Awaitable[None]],
) -> web.StreamResponse:
    """Send an answer as a fault wants it; its record comes before its first byte where it has no end.

    Raises:
        ConnectionError: The client went away in the meantime.
    """
    await _wait(request, fault.delay)
    if fault.cut is not None or fault.hang is not None:
        await record()
        return await _break_off(request, answer, fault, anatomy)
    if not fault.first_byte_delay and not fault.chunk_delay:
        return await deliver(request, answer, record)
    response = await _begun(request, answer)
    *others, last = _pieces(answer.chunks)
    await _wait(request, fault.first_byte_delay)
    for chunk in others:
        await response.write(chunk)
        await _wait(request, fault.chunk_delay)
    await record()
    await response.write(last)
    await response.write_eof()
    return response


async def _break_off(
    request: web.BaseRequest, answer: Rendered, fault: Fault, anatomy: Anatomy
) -> web.StreamResponse:
    if not fault.headless:
        response = await _begun(request, answer)
        if fault.cut != "after_head":
            await _wait(request, fault.first_byte_delay)
            for number, chunk in enumerate(_sent(fault, answer.chunks, anatomy)):
                await _wait(request, fault.chunk_delay if number else 0.0)
                await response.write(chunk)
        # What was written has to leave before the connection breaks, or nothing of it arrives.
        await asyncio.sleep(_LOOK)
    while fault.hang is not None and not _gone(request):
        await asyncio.sleep(_LOOK)
    return hung_up(request)


async def _begun(request: web.BaseRequest, answer: Rendered) -> web.StreamResponse:
    """An answer whose headers are sent."""
    headers = {"content-type": answer.content_type, **answer.headers}
    response = web.StreamResponse(status=answer.status, headers=headers)
    if len(answer.chunks) == 1:
        response.content_length = len(answer.chunks[0])
    await response.prepare(request)
    await response.write(b"")  # else the headers are kept back for the body
    return response


def check_cut(fault: Fault, answer: Rendered, anatomy: Anatomy) -> None:
    """Make sure that an answer has the place where a fault cuts it.

    Raises:
        Refusal: It has not.
    """
    if fault.cut == "in_arguments":
        _in_arguments(answer.chunks, anatomy)


def hung_up(request: web.BaseRequest) -> web.StreamResponse:
    """Break the connection; what is returned for form's sake can no longer be sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def _pieces(chunks: Sequence[bytes]) -> list[bytes]:
    if len(chunks) > 1:
        return list(chunks)
    middle = len(chunks[0]) // 2
    return [chunks[0][:middle], chunks[0][middle:]]


def _sent(fault: Fault, chunks: Sequence[bytes], anatomy: Anatomy) -> list[bytes]:
    """What goes out of an answer that does not come to its end."""
    if fault.cut == "in_arguments":
        return _in_arguments(chunks, anatomy)
    pieces = _pieces(chunks)
    if fault.cut == "before_end":
        return pieces[:-1] if len(chunks) > 1 else [chunks[0][:-1]]
    return pieces[: len(pieces) // 2]


def _in_arguments(chunks: Sequence[bytes], anatomy: Anatomy) -> list[bytes]:
    mark = anatomy.before_arguments
    in_pieces = len(chunks) > 1 and anatomy.calls_in_pieces
    for index, chunk in enumerate(chunks):
        if not in_pieces and mark in chunk:
            return [*chunks[:index], chunk[: chunk.index(mark) + len(mark) + 3]]
        if in_pieces and (data := event_data(chunk)) is not None and anatomy.halve_arguments(data):
            return [*chunks[:index], with_data(chunk, data)]
    raise fault_not_expressible("the answer holds no arguments to be cut in")


async def _wait(request: web.BaseRequest, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (left := end - loop.time()) > 0:
        await asyncio.sleep(min(left, _LOOK))
        if _gone(request):
            raise ConnectionResetError("the client went away before its answer")


def _gone(request: web.BaseRequest) -> bool:
    return request.transport is None or request.transport.is_closing()
