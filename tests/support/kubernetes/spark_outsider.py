"""A process on the network of a job's pods that asks Spark's block managers for blocks, with Spark's own client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import launch_gateway

from tests.support.kubernetes.spark_attempt import Block


class Refused(Exception):
    """No block came."""


class Outsider:
    """A JVM with Spark's classes, and without a session."""

    def __init__(self, gateway: Any) -> None:
        self._jvm = gateway.jvm

    def fetch(self, block: Block, application: str, settings: Mapping[str, str]) -> bytes:
        """Fetches a block from its block manager.

        :param application: Spark's id of the application, which anybody who lists pods can read.
        :param settings: what it knows of the job's settings, with the secret under ``spark.authenticate.secret``.
        :raises Refused: with Spark's exception.
        """
        spark = self._jvm.org.apache.spark
        conf = spark.SparkConf(False)
        for name, value in {"spark.app.id": application, "spark.shuffle.io.maxRetries": "0", **settings}.items():
            conf.set(name, value)
        file = getattr(getattr(self._jvm, "org.apache.spark.internal.config.package$"), "MODULE$").AUTH_SECRET_FILE()
        security = spark.SecurityManager(conf, self._jvm.scala.Option.empty(), file)
        serializers = spark.serializer.SerializerManager(spark.serializer.JavaSerializer(conf), conf)
        client = spark.network.netty.NettyBlockTransferService(
            conf, security, serializers, "127.0.0.9", "127.0.0.9", 0, 1, None
        )
        client.init(None)
        try:
            answer = client.fetchBlockSync(block.host, block.port, block.executor, block.name, None)
            return bytes(answer.createInputStream().readAllBytes())
        except Py4JJavaError as error:
            raise Refused(str(error)) from error
        finally:
            client.close()


@contextmanager
def outsider() -> Iterator[Outsider]:
    """Starts the JVM, and ends it."""
    gateway = launch_gateway()
    try:
        yield Outsider(gateway)
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(20)
