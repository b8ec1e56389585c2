"""Limits the responses of AWS services, which botocore reads as a whole, whatever their size."""

from __future__ import annotations

from typing import Any

from zlayout import reading

_PART = 1 << 16  # bytes of a response that are read at a time


def limit_responses(client: Any) -> None:
    """Let calls of a client of boto3 raise ValueError for a response that takes too much memory."""
    session = client._endpoint.http_session
    send = session.send

    def limited(request: Any) -> Any:
        if request.stream_output:
            return send(request)
        request.stream_output = True  # else the session itself reads the body
        response = send(request)
        try:
            response._content = reading.joined(response.raw.stream(_PART), reading.MAX_METADATA_BYTES, "the response")
        except reading.TooLargeError:
            response.raw.close()
            raise
        reading.require_parsable(response._content, "the response")
        return response

    session.send = limited
