"""librdkafka's mock cluster: a broker in this process that answers with errors and goes away when told to.

https://github.com/confluentinc/librdkafka/blob/master/src/rdkafka_mock.h
"""

from __future__ import annotations

import contextlib
import ctypes
import pathlib
from collections.abc import Iterator
from typing import Any

from datasette_ingest.ingest.remote.settings import KafkaSettings

from ...conftest import missing

PRODUCE = 0
"""The number of a kind of request. https://kafka.apache.org/protocol#protocol_api_keys"""


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError:
        missing("confluent-kafka (a mock cluster)")
    folder = pathlib.Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*.so*"))))
    library.rd_kafka_new.restype = library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_conf_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class MockCluster:
    """One broker, with topics that are made by name."""

    def __init__(self, library: Any, cluster: ctypes.c_void_p) -> None:
        self._library = library
        self._cluster = cluster
        self.address = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()

    def settings(self) -> KafkaSettings:
        return KafkaSettings(bootstrap=tuple(self.address.split(",")), partitions=2, create_topics=False)

    def make_topic(self, name: str, partitions: int) -> None:
        self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)

    def fail(self, kind: int, *codes: int) -> None:
        """Answer the next requests of a kind with these error codes. https://kafka.apache.org/protocol#protocol_error_codes"""
        array = (ctypes.c_int * len(codes))(*codes)
        push = self._library.rd_kafka_mock_push_request_errors_array
        push(self._cluster, ctypes.c_int16(kind), ctypes.c_size_t(len(codes)), array)

    def go(self, *, down: bool) -> None:
        """Close all connections and take no more; or take them again."""
        change = "rd_kafka_mock_broker_set_down" if down else "rd_kafka_mock_broker_set_up"
        getattr(self._library, change)(self._cluster, ctypes.c_int32(1))


@contextlib.contextmanager
def running() -> Iterator[MockCluster]:
    library = _library()
    said = ctypes.create_string_buffer(512)
    client = ctypes.c_void_p(
        library.rd_kafka_new(0, ctypes.c_void_p(library.rd_kafka_conf_new()), said, ctypes.c_size_t(len(said)))
    )
    if not client.value:
        raise RuntimeError(said.value.decode())
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(client, 1))
    try:
        yield MockCluster(library, cluster)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(client)
