"""The span of a client's message."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from callgate._version import __version__
from callgate.errors import ConfigError, Reason
from callgate.gate import Context
from callgate.jsonrpc import TOOLS_CALL, Batch, Message

if TYPE_CHECKING:
    from opentelemetry.context import Context as OtelContext
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span


def span_of(
    tracer: Tracer, message: Message | Batch, context: Context, fields: Mapping[bytes, bytes]
) -> AbstractContextManager[NoSpan | OpenSpan]:
    """A span named for the method, and for the tool where there is one; its parent is what the client named."""
    if isinstance(tracer, NoTracer):
        return tracer.call("")
    method, tool = "batch", ""
    if isinstance(message, Message):
        method = message.method or "response"
        if method == TOOLS_CALL and isinstance(message.params, dict):
            tool = str(message.params.get("name", ""))
    named = {key.decode(): fields[key].decode("latin-1") for key in (b"traceparent", b"tracestate") if key in fields}
    return tracer.call(
        method,
        server=context.server,
        tool=tool,
        transport=context.transport,
        protocol=context.protocol,
        session=context.session,
        headers=named,
        meta=message.meta if isinstance(message, Message) else {},
    )


_CARRIED: Final = ("traceparent", "tracestate")
_MAX_HEADER: Final = 512
_MAX_NAME: Final = 128


class NoSpan:
    """The span of a call that nobody watches."""

    __slots__ = ()

    def allowed(self) -> None:
        pass

    def refused(self, reason: Reason) -> None:
        pass

    def headers(self) -> dict[str, str]:
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass


_NO_SPAN: Final = NoSpan()


class NoTracer:
    """The tracer of a gateway that sends its spans nowhere."""

    enabled = False

    def call(self, _method: str, **_attributes: object) -> NoSpan:
        return _NO_SPAN

    def shutdown(self) -> None:
        pass


class OpenSpan:
    """What a call may tell while its span is open."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def allowed(self) -> None:
        self._span.set_attribute("callgate.verdict", "pass")

    def refused(self, reason: Reason) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_attribute("callgate.verdict", "refuse")
        self._span.set_attribute("error.type", reason.value)
        self._span.set_attribute("rpc.jsonrpc.error_code", reason.code)
        self._span.set_status(Status(StatusCode.ERROR, reason.value))

    def headers(self) -> dict[str, str]:
        """traceparent and tracestate for the server behind the gateway."""
        from opentelemetry.trace import set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier, context=set_span_in_context(self._span))
        return carrier


class OtelTracer:
    """Spans through the OpenTelemetry SDK, exported in batches by a thread of its own."""

    enabled = True

    def __init__(self, exporter: SpanExporter, *, batch: bool = True) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

        resource = Resource.create(
            {"service.name": os.environ.get("OTEL_SERVICE_NAME", "callgate"), "service.version": __version__}
        )
        # Not the global provider: a library that embeds Callgate keeps its own.
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter) if batch else SimpleSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("callgate", __version__)

    @contextmanager
    def call(
        self,
        method: str,
        *,
        server: str,
        tool: str = "",
        transport: str = "",
        protocol: str | None = None,
        session: str | None = None,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Iterator[OpenSpan]:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        method, tool = method[:_MAX_NAME], tool[:_MAX_NAME]
        attributes = {
            "rpc.system": "jsonrpc",
            "rpc.service": server,
            "rpc.method": method,
            "mcp.method.name": method,
            "mcp.tool.name": tool,
            "gen_ai.tool.name": tool,
            "mcp.protocol.version": (protocol or "")[:_MAX_NAME],
            "callgate.session": hashlib.sha256(session.encode()).hexdigest()[:16] if session else "",
            "network.transport": {"http": "tcp", "stdio": "pipe"}.get(transport, ""),
        }
        with self._tracer.start_as_current_span(
            f"{method} {tool}".rstrip(),
            context=_parent(headers or {}, meta or {}),
            kind=SpanKind.SERVER,
            attributes={name: value for name, value in attributes.items() if value},
            # the text of an exception may hold what a peer sent
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield OpenSpan(span)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise

    def shutdown(self) -> None:
        """Sends what is waiting, and ends the exporting thread."""
        self._provider.shutdown()


Tracer: TypeAlias = NoTracer | OtelTracer


def tracer(otlp_endpoint: str | None = None, *, environ: Mapping[str, str] | None = None) -> Tracer:
    """The tracer that the configuration and the OTEL_EXPORTER_OTLP_* variables ask for."""
    environ = os.environ if environ is None else environ
    direct = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or None
    base = otlp_endpoint or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None
    if (base is None and direct is None) or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return NoTracer()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise ConfigError(
            "telemetry.otlp_endpoint: spans are asked for, but the OpenTelemetry exporter is not installed",
            advice="Run `pip install 'callgate[otel]'`, or take telemetry.otlp_endpoint and OTEL_EXPORTER_OTLP_* away.",
        ) from None
    # OTLP §"Endpoint URLs for OTLP/HTTP": a base address gets the signal's path; a traces address is used as it is.
    endpoint = f"{base.rstrip('/')}/v1/traces" if base and (otlp_endpoint or direct is None) else direct
    return OtelTracer(OTLPSpanExporter(endpoint=endpoint))


def _parent(headers: Mapping[str, str], meta: Mapping[str, Any]) -> OtelContext | None:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    for source in (meta, headers):
        carrier = {
            name: value for name in _CARRIED if isinstance(value := source.get(name), str) and len(value) <= _MAX_HEADER
        }
        if "traceparent" in carrier:
            from opentelemetry.context import Context as OtelContext

            # An empty context: what the gateway itself happens to be doing is not the caller's trace.
            return TraceContextTextMapPropagator().extract(carrier, context=OtelContext())
    return None
