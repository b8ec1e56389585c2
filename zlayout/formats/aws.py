"""Limits the responses of AWS services, which botocore reads as a whole, whatever their size."""

from __future__ import annotations

from typing import Any

from zlayout import reading

_PART = 1 << 16  # bytes of a response that are read at a time


def limit_responses(client: Any) -> None:
    """Let calls of a client of boto3 raise ValueError for a response that takes too much memory."""
    session = client._endpoint.http_session

    def send(request: Any, **_: Any) -> Any:
        if request.stream_output:
            return None
        request.stream_output = True  # else the session itself reads the body
        response = session.send(request)
        content = bytearray()
        for part in response.raw.stream(_PART):
            content += part
            if len(content) > reading.MAX_METADATA_BYTES:
                response.raw.close()
                break
        reading.require_parsable(content, "the response")
        response._content = bytes(content)
        return response

    client.meta.events.register("before-send.*.*", send)
